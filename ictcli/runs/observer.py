"""Observers of a run: the console, trackers, or nobody."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from ictcli.engine import Engine
from ictcli.evaluation.record import Evaluation
from ictcli.recipe import Recipe
from ictcli.runs.records import StepMetrics, StepTimings
from ictcli.runs.rollouts import Batch
from ictcli.types import BoolArray


@dataclass(frozen=True)
class Step:
    """A finished step."""

    batch: Batch
    kept: BoolArray
    """(B, T): the tokens that were trained."""
    metrics: StepMetrics
    timings: StepTimings

    @property
    def number(self) -> int:
        return self.metrics.step


class Observer(Protocol):
    """Told what a run does, as it does it."""

    def evaluating(self, label: str, done: int, total: int) -> None: ...
    def evaluated(self, label: str, evaluation: Evaluation) -> None: ...
    def stepped(self, step: Step) -> None: ...
    def warned(self, message: str) -> None: ...


class RunObserver:
    """Shows nothing; the views of the console are made of it. A context manager."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe = recipe
        self.folder = folder
        self.engine: Engine | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def attach(self, engine: Engine) -> None:
        """Called once the engine is loaded."""
        self.engine = engine

    def evaluating(self, label: str, done: int, total: int) -> None: ...
    def evaluated(self, label: str, evaluation: Evaluation) -> None: ...
    def stepped(self, step: Step) -> None: ...
    def warned(self, message: str) -> None: ...

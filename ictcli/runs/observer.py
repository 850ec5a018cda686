"""The interface through which a run reports its progress, to the console for example."""

from dataclasses import dataclass
from typing import Self

from ictcli.engine import Engine
from ictcli.evaluation.record import Evaluation
from ictcli.runs.records import SftMetrics, StepMetrics, StepTimings
from ictcli.runs.rollouts import Batch
from ictcli.types import BoolArray


@dataclass(frozen=True)
class Step:
    """A finished training step."""

    batch: Batch
    kept: BoolArray
    """(B, T): whether a token was trained."""
    metrics: StepMetrics
    timings: StepTimings

    @property
    def number(self) -> int:
        return self.metrics.step


class Observer:
    """A context manager that receives the events of a run; this base class ignores them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def loading(self, model: str) -> None: ...
    def attach(self, engine: Engine) -> None: ...
    def evaluating(self, label: str, done: int, total: int) -> None: ...
    def evaluated(self, label: str, evaluation: Evaluation) -> None: ...
    def resumed(self, step: int) -> None: ...
    def supervised(self, metrics: SftMetrics) -> None: ...
    def stepped(self, step: Step) -> None: ...
    def noted(self, message: str) -> None: ...
    def warned(self, message: str) -> None: ...

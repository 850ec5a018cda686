"""Runs without a command, and an observer that writes down what it is told of one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ictcli.evaluation.record import Evaluation
from ictcli.runs import Run
from ictcli.runs.observer import Observer, Step
from ictcli.runs.records import Summary
from ictcli.train.loop import train

Make = Callable[..., Any]
"""A fixture: the recipe of some overrides, an engine for it, and its task."""


class Notes(Observer):
    """The run is interrupted after `stop` steps, or within the evaluation of that name, `after` so
    many samples."""

    def __init__(self, stop: str | int | None = None, after: int = 0) -> None:
        self.stop, self.after = stop, after
        self.steps: list[Step] = []
        self.evaluations: list[str] = []
        self.warnings: list[str] = []
        self.label = ""  # of the evaluation under way
        self.done = 0  # samples of it

    def evaluating(self, label: str, done: int, total: int) -> None:
        self.label, self.done = label, done

    def evaluated(self, label: str, evaluation: Evaluation) -> None:
        self.evaluations.append(label)
        self.label = ""

    def stepped(self, step: Step) -> None:
        self.steps.append(step)

    def warned(self, message: str) -> None:
        self.warnings.append(message)

    def interrupted(self) -> bool:
        if self.label:
            return self.label == self.stop and self.done >= self.after
        return len(self.steps) == self.stop


def go(made: Any, folder: Path, notes: Notes | None = None) -> Summary:
    """Train a new run of this recipe, engine and task, or go on with the one in the folder."""
    (recipe, engine, task), notes = made, notes or Notes()
    with Run.open(folder)[0] if folder.exists() else Run.create(folder, recipe) as run:
        return train(run, recipe, task, engine, notes, notes.interrupted)

"""The observer that sends what it is told to the trackers, and passes it on to another."""

import contextlib
import time
from collections.abc import Generator

from ictcli.evaluation.record import Evaluation
from ictcli.recipe import Recipe
from ictcli.runs import Run
from ictcli.runs.observer import Observer, Step
from ictcli.runs.public import public_environment, public_recipe
from ictcli.runs.records import Environment
from ictcli.tracking import About, Entry, evaluation_figures, figures
from ictcli.tracking.sender import CLOSE_TIMEOUT, Sender


class TrackingObserver:
    """Starts the trackers when there is first something to send: by then the run's folder is
    restored, and a refused run leaves nothing."""

    def __init__(self, run: Run, recipe: Recipe, observer: Observer) -> None:
        self.run = run
        self.recipe = recipe
        self.observer = observer
        self._senders: list[Sender] | None = None
        self._between: dict[str, float] = {}

    def evaluating(self, label: str, done: int, total: int) -> None:
        self.observer.evaluating(label, done, total)

    def evaluated(self, label: str, evaluation: Evaluation) -> None:
        values, steps = evaluation_figures(evaluation), self.recipe.steps
        if label == "before":
            self._send(0, 0, values)
        elif label == "after":
            self._send(steps + 1, steps, values)
        else:
            self._between = values  # sent with its step, which is not over
        self.observer.evaluated(label, evaluation)

    def stepped(self, step: Step) -> None:
        values = figures(step.metrics, step.timings) | self._between
        self._between = {}
        self._send(step.number, step.number, values)
        self.observer.stepped(step)

    def warned(self, message: str) -> None:
        self.observer.warned(message)

    def close(self) -> None:
        until = time.monotonic() + CLOSE_TIMEOUT
        for sender in self._senders or ():
            sender.finish()
        for sender in self._senders or ():
            sender.close(until)
        self._warn()

    def _send(self, place: int, step: int, values: dict[str, float]) -> None:
        if self._senders is None:
            environment = self.run.read("environment.json", Environment) or Environment()
            about = About(
                folder=self.run.folder.resolve(),
                done=len(self.run.metrics()),  # steps of earlier processes
                steps=self.recipe.steps,
                recipe=public_recipe(self.recipe.model_dump(mode="json", exclude_none=True)),
                environment=public_environment(environment),
            )
            names = dict.fromkeys(self.recipe.log)
            self._senders = [Sender(name, self.run.folder, about) for name in names]
        for sender in self._senders:
            sender.put(Entry(place=place, step=step, values=values))
        self._warn()

    def _warn(self) -> None:
        for sender in self._senders or ():
            while sender.troubles:
                self.observer.warned(sender.troubles.pop(0))


@contextlib.contextmanager
def tracked(run: Run, recipe: Recipe, observer: Observer) -> Generator[Observer]:
    """An observer that also logs as the recipe says, closed at the end."""
    if not recipe.log:
        yield observer
        return
    tracking = TrackingObserver(run, recipe, observer)
    try:
        yield tracking
    finally:
        tracking.close()

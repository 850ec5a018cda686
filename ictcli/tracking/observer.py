"""The observer that says to the trackers how far the run is, and passes on what it is told."""

import contextlib
import time
from collections.abc import Generator

from ictcli.evaluation.record import Evaluation
from ictcli.recipe import Recipe
from ictcli.runs import Run
from ictcli.runs.observer import Observer, Step
from ictcli.runs.public import public_environment, public_recipe
from ictcli.runs.read import read_environment
from ictcli.tracking import About
from ictcli.tracking.sender import CLOSE_TIMEOUT, Sender


class TrackingObserver:
    """Starts the trackers when there is first something to log: by then the run's folder is
    restored, and a refused run leaves nothing."""

    def __init__(self, run: Run, recipe: Recipe, observer: Observer) -> None:
        self.run = run
        self.recipe = recipe
        self.observer = observer
        self._senders: list[Sender] | None = None

    def evaluating(self, label: str, done: int, total: int) -> None:
        self.observer.evaluating(label, done, total)

    def evaluated(self, label: str, evaluation: Evaluation) -> None:
        places = {"before": 0, "after": self.recipe.steps + 1}
        if label in places:  # others are logged with their step, which is not over
            self._send(places[label])
        self.observer.evaluated(label, evaluation)

    def stepped(self, step: Step) -> None:
        self._send(step.number)
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

    def _send(self, place: int) -> None:
        if self._senders is None:
            about = About(
                folder=self.run.folder.resolve(),
                done=len(self.run.metrics()) if place == 0 else place - 1,
                steps=self.recipe.steps,
                recipe=public_recipe(self.recipe.model_dump(mode="json", exclude_none=True)),
                environment=public_environment(read_environment(self.run.folder)),
            )
            self._senders = [Sender(name, about) for name in dict.fromkeys(self.recipe.log)]
        for sender in self._senders:
            sender.send(place)
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

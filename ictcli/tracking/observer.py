"""The watcher that logs to trackers, and passes everything on to the watcher on the screen."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator
from typing import Any

from ictcli.recipe import Recipe
from ictcli.runs import Run
from ictcli.runs.public import public_environment, public_recipe
from ictcli.tracking import evaluated_figures, figures
from ictcli.tracking.sender import CLOSE_TIMEOUT, Sender
from ictcli.train.loop import Step, Watcher


class Tracked:
    """Opens the trackers at the first entry: by then the run's folder is at the step it resumes
    from, and a run that is refused leaves nothing."""

    def __init__(self, run: Run, recipe: Recipe, watch: Watcher) -> None:
        self.run = run
        self.recipe = recipe
        self.watch = watch
        self._senders: list[Sender] | None = None
        self._between: dict[str, float] = {}

    def evaluating(self, label: str, done: int, total: int) -> None:
        self.watch.evaluating(label, done, total)

    def evaluated(self, label: str, found: dict[str, Any]) -> None:
        values, steps = evaluated_figures(found), self.recipe.steps
        if label == "before":
            self._log(0, 0, values)
        elif label == "after":
            self._log(steps + 1, steps, values)
        else:
            self._between = values  # logged with its step, which is not over
        self.watch.evaluated(label, found)

    def stepped(self, step: Step) -> None:
        values = figures(step.metrics, step.timing) | self._between
        self._between = {}
        self._log(step.number, step.number, values)
        self.watch.stepped(step)

    def warned(self, message: str) -> None:
        self.watch.warned(message)

    def close(self) -> None:
        until = time.monotonic() + CLOSE_TIMEOUT
        for sender in self._senders or ():
            sender.finish()
        for sender in self._senders or ():
            sender.close(until)
        self._say_troubles()

    def _log(self, place: int, step: int, values: dict[str, float]) -> None:
        if self._senders is None:
            about = {
                "folder": str(self.run.folder.resolve()),
                "done": len(self.run.lines("metrics.jsonl")),  # steps finished before a resume
                "steps": self.recipe.steps,
                "recipe": public_recipe(self.recipe.model_dump(mode="json", exclude_none=True)),
                "environment": public_environment(self.run.read("environment.json") or {}),
            }
            names = dict.fromkeys(self.recipe.log)
            self._senders = [Sender(name, self.run.folder, about) for name in names]
        for sender in self._senders:
            sender.put({"place": place, "step": step, "values": values})
        self._say_troubles()

    def _say_troubles(self) -> None:
        for sender in self._senders or ():
            while sender.troubles:
                self.watch.warned(sender.troubles.pop(0))


@contextlib.contextmanager
def tracked(run: Run, recipe: Recipe, watch: Watcher) -> Generator[Watcher]:
    """A watcher that also logs to the recipe's trackers; they are closed at the end."""
    if not recipe.log:
        yield watch
        return
    observer = Tracked(run, recipe, watch)
    try:
        yield observer
    finally:
        observer.close()

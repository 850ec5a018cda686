"""The watcher that tells trackers what it sees, and hands it on to the one that is shown."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator
from typing import Any

from ictcli.recipe import Recipe
from ictcli.runs import Run
from ictcli.runs.public import public_environment, public_recipe
from ictcli.tracking import evaluated_figures, figures
from ictcli.tracking.feed import PATIENCE, Feed
from ictcli.train.loop import Step, Watcher


class Tracked:
    """Opens the trackers at the first thing to tell them: by then the run's folder stands where it
    goes on, and a run that is refused leaves nothing."""

    def __init__(self, run: Run, recipe: Recipe, watch: Watcher) -> None:
        self.run = run
        self.recipe = recipe
        self.watch = watch
        self._feeds: list[Feed] | None = None
        self._between: dict[str, float] = {}

    def evaluating(self, label: str, done: int, total: int) -> None:
        self.watch.evaluating(label, done, total)

    def evaluated(self, label: str, found: dict[str, Any]) -> None:
        values, steps = evaluated_figures(found), self.recipe.steps
        if label == "before":
            self._tell(0, 0, values)
        elif label == "after":
            self._tell(steps + 1, steps, values)
        else:
            self._between = values  # told with its step, which is not over
        self.watch.evaluated(label, found)

    def stepped(self, step: Step) -> None:
        values = figures(step.metrics, step.timing) | self._between
        self._between = {}
        self._tell(step.number, step.number, values)
        self.watch.stepped(step)

    def warned(self, message: str) -> None:
        self.watch.warned(message)

    def close(self) -> None:
        until = time.monotonic() + PATIENCE
        for feed in self._feeds or ():
            feed.finish()
        for feed in self._feeds or ():
            feed.close(until)
        self._say_troubles()

    def _tell(self, place: int, step: int, values: dict[str, float]) -> None:
        if self._feeds is None:
            about = {
                "folder": str(self.run.folder.resolve()),
                "done": len(self.run.lines("metrics.jsonl")),  # of the sittings before
                "steps": self.recipe.steps,
                "recipe": public_recipe(self.recipe.model_dump(mode="json", exclude_none=True)),
                "environment": public_environment(self.run.read("environment.json") or {}),
            }
            names = dict.fromkeys(self.recipe.log)
            self._feeds = [Feed(name, self.run.folder, about) for name in names]
        for feed in self._feeds:
            feed.put({"place": place, "step": step, "values": values})
        self._say_troubles()

    def _say_troubles(self) -> None:
        for feed in self._feeds or ():
            while feed.troubles:
                self.watch.warned(feed.troubles.pop(0))


@contextlib.contextmanager
def tracked(run: Run, recipe: Recipe, watch: Watcher) -> Generator[Watcher]:
    """Within, what the watcher is told is logged as the recipe says."""
    if not recipe.log:
        yield watch
        return
    telling = Tracked(run, recipe, watch)
    try:
        yield telling
    finally:
        telling.close()

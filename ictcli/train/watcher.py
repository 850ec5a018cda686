"""A watcher of a run: what the views of the console share."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ictcli.engine import Engine
from ictcli.recipe import Recipe
from ictcli.text import duration
from ictcli.train.loop import Step


class RunWatcher:
    """Watches a run and shows nothing; the views of the console show it. A context manager."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe = recipe
        self.folder = folder
        self.engine: Engine | None = None
        self._first: tuple[int, float] | None = None

    def __enter__(self) -> RunWatcher:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def attach(self, engine: Engine) -> None:
        """Called once the engine is loaded."""
        self.engine = engine

    def evaluating(self, label: str, done: int, total: int) -> None: ...
    def evaluated(self, label: str, found: dict[str, Any]) -> None: ...
    def stepped(self, step: Step) -> None: ...
    def warned(self, message: str) -> None: ...

    def left(self, number: int) -> str:
        """Time left after step `number`, judged by the steps of this process."""
        now = time.perf_counter()
        if self._first is None:
            self._first = (number, now)
            return "-"
        begun, at = self._first
        return duration((now - at) / (number - begun) * (self.recipe.steps - number))

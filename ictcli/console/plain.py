"""One line a step, for logs and pipes."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

from ictcli.engine import Engine
from ictcli.recipe import Recipe
from ictcli.train.loop import Step


def narrate(text: str) -> None:
    """A line for the person watching, on stderr; no run ends because nobody reads it."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def duration(seconds: float) -> str:
    """`42s`, `3m07s`, `2h05m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def figure(value: Any, form: str = ".3f") -> str:
    return "-" if value is None else format(value, form)


def passes(found: dict[str, Any]) -> str:
    """`pass@1 0.312  pass@4 0.701` of an evaluation."""
    named = [(key, value) for key, value in found.items() if key.startswith("pass@")]
    return "  ".join(f"{key} {value['value']:.3f}" for key, value in named)


class RunWatcher:
    """What both views share: the clock, and being a context manager."""

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
        """The engine is there: say what runs where."""
        self.engine = engine

    def evaluating(self, label: str, done: int, total: int) -> None: ...
    def evaluated(self, label: str, found: dict[str, Any]) -> None: ...
    def stepped(self, step: Step) -> None: ...
    def warned(self, message: str) -> None: ...

    def left(self, number: int) -> str:
        """Time left after step `number`, from the steps this process has seen."""
        now = time.perf_counter()
        if self._first is None:
            self._first = (number, now)
            return "-"
        begun, at = self._first
        return duration((now - at) / (number - begun) * (self.recipe.steps - number))


class PlainWatcher(RunWatcher):
    """Writes to stderr."""

    def attach(self, engine: Engine) -> None:
        super().attach(engine)
        about = engine.describe()
        narrate(
            f"{self.folder}: {self.recipe.rule.name} on {self.recipe.task}, "
            f"{about['parameters']:,} parameters, {about['engine']} on {about['device']} "
            f"({about['dtype']})"
        )

    def evaluated(self, label: str, found: dict[str, Any]) -> None:
        narrate(f"{label}: {passes(found)}  ({found['problems']} problems x {found['n']})")

    def stepped(self, step: Step) -> None:
        m = step.metrics
        seconds = step.timing["sample_s"] + step.timing["update_s"]
        narrate(
            f"step {step.number}/{self.recipe.steps}  reward {figure(m['reward'])}  "
            f"H1 {figure(m['entropy'])}  H2 {figure(m['renyi2'])}  "
            f"kept {figure(m['share_kept'], '.1%')}  length {figure(m['length'], '.1f')}  "
            f"grad {figure(m['grad_norm'])}  "
            f"{seconds:.2f}s  left {self.left(step.number)}"
        )

    def warned(self, message: str) -> None:
        narrate(f"warning: {message}")

"""One line a step, for logs and pipes."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from ictcli.engine import Engine
from ictcli.text import figure
from ictcli.train.loop import Step
from ictcli.train.watcher import RunWatcher


def narrate(text: str) -> None:
    """A line for the person watching, on stderr; no run ends because nobody reads it."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def passes(found: dict[str, Any]) -> str:
    """`pass@1 0.312  pass@4 0.701` of an evaluation."""
    named = [(key, value) for key, value in found.items() if key.startswith("pass@")]
    return "  ".join(f"{key} {value['value']:.3f}" for key, value in named)


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

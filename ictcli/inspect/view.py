"""One prompt's group, ready to be drawn or written: what the screen, the page and --json share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ictcli.errors import UserError, nearest
from ictcli.inspect.choices import TRAINED, Choice, Missing, choices_of, methods_of, overlap
from ictcli.inspect.pieces import Decode, pieces
from ictcli.inspect.record import Recorded
from ictcli.types import FloatArray

FORMAT = 1
SHADINGS = ("uniqueness", "entropy", "purity", "weight", "prob")
LEVELS = 6
"""Shades that a terminal tells apart, none among them."""


@dataclass
class View:
    """A recorded step with every method's choice."""

    recorded: Recorded
    choices: list[Choice]
    missing: list[Missing]
    decode: Decode | None
    asked: tuple[str, ...] = ()
    """Methods named by the user."""
    _pieces: dict[int, list[str]] = field(default_factory=dict[int, list[str]])

    @property
    def prompts(self) -> int:
        return len(self.recorded.batch.problems)

    @cached_property
    def shadings(self) -> tuple[str, ...]:
        """Those whose values were recorded."""
        stats = self.recorded.batch.rollouts.stats
        return tuple(name for name in SHADINGS if name == "weight" or name in stats)

    def pieces(self, row: int) -> list[str]:
        """The tokens of a row of the batch as text."""
        if row not in self._pieces:
            rollouts = self.recorded.batch.rollouts
            ids = rollouts.tokens[row, : rollouts.lengths[row]].tolist()
            self._pieces[row] = pieces(ids, self.decode)
        return self._pieces[row]

    @property
    def shown(self) -> int:
        """Whose choice is marked at first: that of the method named first, else what was trained;
        where that was every token, the run's own method."""
        names = [choice.name for choice in self.choices]
        named = [names.index(name) for name in self.asked if name in names]
        trained = self.choices[0]
        if not named and trained.name == TRAINED and self._dense(trained):
            named = [1]
        return named[0] if named and named[0] < len(names) else 0

    def rows(self, prompt: int) -> range:
        """The rows of a prompt (from 0) in the batch."""
        group = self.recorded.batch.rollouts.group
        return range(prompt * group, (prompt + 1) * group)

    def _dense(self, choice: Choice) -> bool:
        return bool(choice.kept[self.recorded.batch.rollouts.valid].all())

    def values(self, by: str, choice: Choice) -> FloatArray:
        """(B, T) what tokens are shaded by; the weight is that of `choice`."""
        return choice.weights if by == "weight" else self.recorded.batch.rollouts.stats[by]

    def top(self, by: str, choice: Choice) -> float:
        """The value of the deepest shade: 1 of probabilities, else the batch's largest."""
        if by in ("purity", "prob"):
            return 1.0
        values = self.values(by, choice)[self.recorded.batch.rollouts.valid]
        values = values[np.isfinite(values)]
        return max(float(values.max(initial=0.0)), 1e-12)


def level(value: float, top: float) -> int:
    """The shade of a value, 0 to LEVELS - 1, in equal steps up to `top`."""
    return min(LEVELS - 1, int(LEVELS * value / top)) if value > 0 else 0


def open_view(recorded: Recorded, names: Sequence[str], decode: Decode | None) -> View:
    """Ask every method; UserError for a name there is none of."""
    choices, missing = choices_of(recorded, methods_of(recorded, names))
    return View(recorded, choices, missing, decode, tuple(names))


def shading(view: View, by: str | None) -> str:
    """The shading asked for, or the first there is. UserError where it was not recorded."""
    if by is None:
        return view.shadings[0]
    if by not in SHADINGS:
        raise UserError(
            f"There is no shading {by!r}{nearest(by, list(SHADINGS))}.",
            "one of " + ", ".join(SHADINGS),
        )
    if by not in view.shadings:
        raise UserError(
            f"The {by} of these tokens was not recorded.",
            "record.uniqueness=true records it" if by == "uniqueness" else "ictcli inspect --by",
        )
    return by


def chosen_prompt(view: View, prompt: int | None) -> int:
    """A prompt from 0, of one asked for from 1; without one the first whose rewards differ."""
    if prompt is None:
        signal = (view.recorded.batch.advantage != 0).reshape(view.prompts, -1).any(axis=1)
        return int(signal.argmax())
    if not 1 <= prompt <= view.prompts:
        raise UserError(
            f"There is no prompt {prompt} in step {view.recorded.step}.",
            f"--prompt takes 1 to {view.prompts}",
        )
    return prompt - 1


def regime(prob: float, beta: float) -> str | None:
    """R_H where raising the token lowers H2 (pi > beta), R_L where it raises it; see
    `ictcli.algorithm.dynamics`."""
    return None if prob == beta else "R_H" if prob > beta else "R_L"


def as_data(view: View, prompt: int, by: str) -> dict[str, Any]:
    """One group as plain data: `--json`, and what the page holds. Rows, positions and prompts
    count from 1; lists of tokens have one entry a token."""
    recorded, batch = view.recorded, view.recorded.batch
    rows = view.rows(prompt)
    problem = batch.problems[prompt]
    valid = batch.rollouts.valid
    trained = view.choices[0]
    group = slice(rows.start, rows.stop)

    def method(choice: Choice) -> dict[str, Any]:
        return {
            "name": choice.name,
            "about": choice.about,
            "trained": choice.trained,
            "kept": int(choice.kept[group].sum()),
            "share": float(choice.kept[valid].mean()),
            "overlap_with_trained": overlap(choice.kept, trained.kept),
            "weight_top": view.top("weight", choice),
        }

    return {
        "format": FORMAT,
        "run": str(recorded.place.run) if recorded.place.run else None,
        "file": str(recorded.path),
        "step": recorded.step,
        "steps": list(recorded.place.steps),
        "prompt": prompt + 1,
        "prompts": view.prompts,
        "problem": {"id": problem.id, "prompt": problem.prompt, "gold": problem.gold},
        "by": by,
        "shown": view.choices[view.shown].name,
        "tops": {name: view.top(name, trained) for name in view.shadings if name != "weight"},
        "methods": [method(choice) for choice in view.choices],
        "missing": [
            {"name": m.name, "statistics": list(m.statistics), "sentence": m.sentence}
            for m in view.missing
        ],
        "notes": list(recorded.notes),
        "rollouts": [_rollout(view, row, row - rows.start + 1) for row in rows],
    }


def _rollout(view: View, row: int, number: int) -> dict[str, Any]:
    batch = view.recorded.batch
    rollouts, verdict = batch.rollouts, batch.verdicts[row]
    n = int(rollouts.lengths[row])
    stats = {name: _numbers(values[row, :n]) for name, values in rollouts.stats.items()}
    known = "prob" in stats and "purity" in stats
    pairs = zip(stats["prob"], stats["purity"], strict=True) if known else ()
    return {
        "row": number,
        "text": batch.texts[row],
        "verdict": verdict.status,
        "extracted": verdict.extracted,
        "reason": verdict.reason,
        "reward": _numbers(batch.rewards[row : row + 1])[0],
        "advantage": _numbers(batch.advantage[row : row + 1])[0],
        "finished": bool(rollouts.finished[row]),
        "tokens": rollouts.tokens[row, :n].tolist(),
        "pieces": view.pieces(row),
        "logp": _numbers(rollouts.logp[row, :n]),
        "stats": stats,
        "regime": [None if p is None or b is None else regime(p, b) for p, b in pairs],
        "kept": {c.name: c.kept[row, :n].tolist() for c in view.choices},
        "weights": {c.name: _numbers(c.weights[row, :n]) for c in view.choices},
    }


def _numbers(values: FloatArray) -> list[float | None]:
    """As short as float32 reads back; None for what is not finite."""
    short = np.asarray(values, dtype=np.float32)
    return [float(str(value)) if np.isfinite(value) else None for value in short]

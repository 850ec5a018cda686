"""A recorded step with every method's selection: what the screen, the page and --json show."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ictcli.algorithm.attribution import KINDS, attribute
from ictcli.algorithm.methods import find_method
from ictcli.algorithm.weights import group_advantage
from ictcli.errors import UserError, nearest
from ictcli.inspect.recorded import RecordedStep
from ictcli.inspect.selections import TRAINED, MissingStatistics, Selection, overlap
from ictcli.tasks.detokenize import Decode, token_texts
from ictcli.tasks.forks import Decided
from ictcli.types import FloatArray

FORMAT = 1
SHADINGS = ("uniqueness", "entropy", "purity", "weight", "prob")
SYMBOLS = {"uniqueness": "u", "entropy": "H1", "purity": "β", "prob": "p"}
"""Of the statistics that are shown beside a token."""
MARKS = {"correct": "✓", "wrong": "✗", "unparsed": "?", "timeout": "⌛"}
"""Of verdicts."""
LEVELS = 6
"""Shades on a terminal, no shade among them."""


@dataclass
class View:
    """A recorded step with every method's selection."""

    recorded: RecordedStep
    selections: list[Selection]
    missing: list[MissingStatistics]
    decode: Decode | None
    methods: Sequence[str] = ()
    """Methods named by the user."""
    decided: Decided | None = None
    """What the choices of the responses came to, where the task knows."""
    _texts: dict[int, list[str]] = field(default_factory=dict[int, list[str]])

    @property
    def prompts(self) -> int:
        return len(self.recorded.batch.problems)

    @cached_property
    def shadings(self) -> tuple[str, ...]:
        """The shadings whose values were recorded."""
        stats = self.recorded.batch.rollouts.stats
        return tuple(name for name in SHADINGS if name == "weight" or name in stats)

    def texts(self, row: int) -> list[str]:
        """The text of each token of a row of the batch."""
        if row not in self._texts:
            rollouts = self.recorded.batch.rollouts
            ids = rollouts.tokens[row, : rollouts.lengths[row]].tolist()
            self._texts[row] = token_texts(ids, self.decode)
        return self._texts[row]

    @property
    def shown(self) -> int:
        """The selection marked at first: the first method the user named, else what was trained;
        if that was every token, the run's method."""
        names = [selection.name for selection in self.selections]
        named = [names.index(name) for name in self.methods if name in names]
        if named:
            return named[0]
        valid = self.recorded.batch.rollouts.valid
        dense = names[0] == TRAINED and self.selections[0].kept[valid].all()
        return 1 if dense and len(names) > 1 else 0

    def rows(self, prompt: int) -> range:
        """The rows of the batch of a prompt, counted from 0."""
        group = self.recorded.batch.rollouts.group
        return range(prompt * group, (prompt + 1) * group)

    def values(self, by: str, selection: Selection) -> FloatArray:
        """(B, T) values that shade the tokens; `weight` is the size of that of `selection`."""
        return (
            np.abs(selection.weights) if by == "weight" else self.recorded.batch.rollouts.stats[by]
        )

    def top(self, by: str, selection: Selection) -> float:
        """The value of the deepest shade: 1 for probabilities, else the batch's largest."""
        if by in ("purity", "prob"):
            return 1.0
        values = self.values(by, selection)[self.recorded.batch.rollouts.valid]
        values = values[np.isfinite(values)]
        return max(float(values.max(initial=0.0)), 1e-12)

    def shading(self, by: str | None) -> str:
        """`by`, or the first shading there is. UserError for one that was not recorded."""
        if by is None:
            return self.shadings[0]
        if by not in SHADINGS:
            raise UserError(
                f"There is no shading {by!r}{nearest(by, list(SHADINGS))}.",
                "one of " + ", ".join(SHADINGS),
            )
        if by not in self.shadings:
            raise UserError(
                f"The {by} of these tokens was not recorded.",
                "record.uniqueness=true records it"
                if by == "uniqueness"
                else "ictcli inspect --by",
            )
        return by

    @cached_property
    def gradients(self) -> dict[str, dict[str, tuple[float, float]] | None]:
        """By selection, shares of the step's gradient on tokens made likelier and less likely, by
        kind (`ictcli.algorithm.attribution`); None where statistics or a gradient are missing."""
        return {selection.name: self._gradient(selection) for selection in self.selections}

    def _gradient(self, selection: Selection) -> dict[str, tuple[float, float]] | None:
        batch, known = self.recorded.batch, self.decided
        advantage = batch.advantage
        if not {"prob", "purity"} <= set(batch.rollouts.stats):
            return None
        masks = known.masks if known else ()
        if selection.name not in (TRAINED, self.recorded.run_method):
            scaled = find_method(selection.name).scaled_advantage
            advantage = group_advantage(batch.rewards, batch.rollouts.group, scale=scaled)
        shares = attribute(batch.rollouts, selection.weights, advantage, *masks).shares
        if not shares.any():
            return None
        by_sign = zip(KINDS, shares.sum(axis=2).tolist(), strict=True)
        return {kind: (up, down) for kind, (up, down) in by_sign if known or "fork" not in kind}

    def choose_prompt(self, prompt: int | None) -> int:
        """A prompt counted from 0, from one counted from 1; if None, the first whose rewards
        differ."""
        if prompt is None:
            signal = (self.recorded.batch.advantage != 0).reshape(self.prompts, -1).any(axis=1)
            return int(signal.argmax())
        if not 1 <= prompt <= self.prompts:
            raise UserError(
                f"There is no prompt {prompt} in step {self.recorded.step}.",
                f"--prompt takes 1 to {self.prompts}",
            )
        return prompt - 1


def level(value: float, top: float) -> int:
    """The shade of a value, 0 to LEVELS - 1, in equal steps up to `top`."""
    return min(LEVELS - 1, int(LEVELS * value / top)) if value > 0 else 0


def regime(prob: float, beta: float) -> str | None:
    """R_H where raising the token lowers H2 (prob > beta), R_L where it raises H2; see
    `ictcli.algorithm.dynamics`."""
    return None if prob == beta else "R_H" if prob > beta else "R_L"


def gradient_text(gradient: dict[str, tuple[float, float]] | None) -> str:
    """The shares in a line, in percent."""
    if gradient is None:
        return "-"
    shares = gradient.items()
    return ", ".join(f"{kind} +{100 * up:.1f} -{100 * down:.1f}" for kind, (up, down) in shares)


def group_data(view: View, prompt: int, by: str) -> dict[str, Any]:
    """One group as plain data, for --json and the page. Rows, positions and prompts count from 1;
    lists of tokens have one entry a token."""
    recorded, batch = view.recorded, view.recorded.batch
    rows = view.rows(prompt)
    problem = batch.problems[prompt]
    valid = batch.rollouts.valid
    trained = view.selections[0]
    group = slice(rows.start, rows.stop)
    run = recorded.recordings.run
    return {
        "format": FORMAT,
        "run": str(run) if run else None,
        "file": str(recorded.path),
        "step": recorded.step,
        "steps": list(recorded.recordings.steps),
        "prompt": prompt + 1,
        "prompts": view.prompts,
        "problem": {"id": problem.id, "prompt": problem.prompt, "gold": problem.gold},
        "by": by,
        "shown": view.selections[view.shown].name,
        "tops": {name: view.top(name, trained) for name in view.shadings if name != "weight"},
        "methods": [
            {
                "name": selection.name,
                "about": selection.about,
                "trained": selection.trained,
                "kept": int(selection.kept[group].sum()),
                "share": float(selection.kept[valid].mean()),
                "overlap_with_trained": overlap(selection.kept, trained.kept),
                "gradient": view.gradients[selection.name],
                "weight_top": view.top("weight", selection),
            }
            for selection in view.selections
        ],
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
        "pieces": view.texts(row),
        "logp": _numbers(rollouts.logp[row, :n]),
        "stats": stats,
        "regime": [None if p is None or b is None else regime(p, b) for p, b in pairs],
        "kept": {s.name: s.kept[row, :n].tolist() for s in view.selections},
        "weights": {s.name: _numbers(s.weights[row, :n]) for s in view.selections},
    }


def _numbers(values: FloatArray) -> list[float | None]:
    """The shortest numbers that read back as the same float32; None for one that is not finite."""
    short = np.asarray(values, dtype=np.float32)
    return [float(str(value)) if np.isfinite(value) else None for value in short]

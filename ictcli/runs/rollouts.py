"""Recorded rollouts: a step's batch, its trained tokens and their weights."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from ictcli.errors import UserError
from ictcli.files import make_folder, new_file
from ictcli.files.reading import check_file, parse_json
from ictcli.rewards import Verdict
from ictcli.runs.records import FORMAT
from ictcli.types import BoolArray, FloatArray, IntArray, Problem, Rollouts

LARGEST = 4 << 30
"""Largest file of rollouts that is read, in bytes."""


@dataclass(frozen=True)
class Batch:
    """The B sampled and judged rollouts of one step, in equal groups for its P problems."""

    problems: list[Problem]
    rollouts: Rollouts
    texts: list[str]
    verdicts: list[Verdict]
    rewards: FloatArray
    """(B,)"""
    advantage: FloatArray
    """(B,)"""
    parts: Mapping[str, Sequence[Verdict]] = field(default_factory=dict[str, Sequence[Verdict]])
    """If several verifiers give rewards: the verdicts of each, by its name in the metrics."""
    first: "Batch | None" = None
    """The batch as first sampled, if prompts were then replaced (`sampling.redraw`)."""
    redrawn: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """(N,): number of tokens of each rollout that was sampled for a replacement prompt."""

    @property
    def own(self) -> "Batch":
        """Return the batch as first sampled, before any prompt was replaced."""
        return self.first or self

    @property
    def tokens_sampled(self) -> int:
        """Return the number of tokens sampled in the step, those of replaced prompts included."""
        return int(self.own.rollouts.lengths.sum() + self.redrawn.sum())

    @property
    def has_signal(self) -> BoolArray:
        """Return (P,): whether the problem's group of rollouts has an advantage other than 0. With
        most methods this means that the rewards of the group differ."""
        return (self.advantage != 0).reshape(-1, self.rollouts.group).any(axis=1)

    @property
    def correct(self) -> BoolArray:
        """Return (B,): whether the verdict is "correct"."""
        return np.array([verdict.status == "correct" for verdict in self.verdicts])

    @property
    def finite(self) -> bool:
        """Return whether all log-probabilities of the rollouts are finite."""
        return bool(np.isfinite(self.rollouts.logp).all())


Description = dict[str, Any]
"""JSON in the header of a file of rollouts: step, group, prompts, problems, texts and verdicts."""


def write_rollouts(
    path: Path, step: int, batch: Batch, kept: BoolArray, weights: FloatArray
) -> None:
    """Write a batch to a file; `kept` and `weights` (B, T) are its trained tokens and weights."""
    from safetensors import numpy as safetensors_numpy

    rollouts = batch.rollouts
    arrays = {
        "tokens": rollouts.tokens.astype(np.int32),
        "lengths": rollouts.lengths.astype(np.int32),
        "finished": rollouts.finished,
        "logp": rollouts.logp.astype(np.float32),
        "rewards": batch.rewards.astype(np.float32),
        "advantage": batch.advantage.astype(np.float32),
        "kept": kept,
        "weights": weights,
        **{f"stats/{name}": v.astype(np.float32) for name, v in rollouts.stats.items()},
    }
    description = {
        "format": FORMAT,
        "step": step,
        "group": rollouts.group,
        "prompts": rollouts.prompts,
        "problems": [problem.to_json() for problem in batch.problems],
        "texts": batch.texts,
        "verdicts": [asdict(verdict) for verdict in batch.verdicts],
    }
    contiguous = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    make_folder(path.parent)
    with new_file(path) as temporary:
        cast(Any, safetensors_numpy).save_file(
            contiguous, temporary, metadata={"ictcli": json.dumps(description)}
        )


def read_rollouts(path: Path) -> tuple[dict[str, np.ndarray], Description]:
    """Return the arrays of a recorded batch, named as in `write_rollouts`, and its description.
    UserError if another version of ictcli wrote the file, or it is too large."""
    from safetensors import safe_open

    check_file(path, LARGEST)
    with cast(Any, safe_open)(path, "np") as file:
        description = parse_json(file.metadata()["ictcli"])
        if description["format"] != FORMAT:
            raise UserError(
                f"{path} was written by another version of ictcli.", "inspect it with that version"
            )
        return {name: file.get_tensor(name) for name in file.keys()}, description  # noqa: SIM118


def batch_of(arrays: dict[str, np.ndarray], description: Description) -> Batch:
    """Return the batch of a file that `read_rollouts` read. ValueError if its shapes disagree."""
    rollouts = Rollouts(
        prompts=tuple(tuple(prompt) for prompt in description["prompts"]),
        group=description["group"],
        **{name: arrays[name] for name in ("tokens", "lengths", "finished", "logp")},
        stats={
            name.removeprefix("stats/"): values
            for name, values in arrays.items()
            if name.startswith("stats/")
        },
    )
    problems = [
        Problem(
            *(str(p["id"]), p["prompt"], str(p["gold"]), tuple(p.get("choices") or ())),
            turns=tuple((role, text) for role, text in p.get("turns") or ()),
            more_golds=tuple(p.get("more_golds") or ()),
        )
        for p in description["problems"]
    ]
    verdicts = [
        Verdict(v["status"], v.get("extracted") or "", v.get("reason") or "", v.get("score"))
        for v in description["verdicts"]
    ]
    batch = Batch(
        problems, rollouts, description["texts"], verdicts, arrays["rewards"], arrays["advantage"]
    )
    _check(batch, arrays)
    return batch


def _check(batch: Batch, arrays: dict[str, np.ndarray]) -> None:
    rollouts, problems = batch.rollouts, batch.problems
    B, T = rollouts.tokens.shape
    by_row = ("lengths", "finished", "rewards", "advantage")
    shapes = {name: (B,) if name in by_row else (B, T) for name in arrays}
    texts = [*batch.texts, *(p.prompt for p in problems), *(c for p in problems for c in p.choices)]
    judged: Any = (*(v.status for v in batch.verdicts), *(v.reason for v in batch.verdicts))
    consistent = (
        B == len(problems) * rollouts.group == len(batch.texts) == len(batch.verdicts)
        and len(problems) == len(rollouts.prompts)
        and all(arrays[name].shape == shape for name, shape in shapes.items())
        and all(isinstance(text, str) for text in (*texts, *judged))
        and 0 <= rollouts.lengths.min(initial=0) <= rollouts.lengths.max(initial=0) <= T
        and rollouts.tokens.min(initial=0) >= 0
        and all(min(ids, default=0) >= 0 for ids in rollouts.prompts)
    )
    if not consistent:
        raise ValueError("its shapes, texts or token ids are not those of one batch")

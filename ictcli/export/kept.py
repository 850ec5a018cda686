"""Measures how much of training's effect an export preserves, on the run's recorded responses.

1 - KL(trained || exported) / KL(trained || base), per token, exact over the vocabulary, all three
models in float32 and the export loaded from its files. Ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ictcli.engine import Engine
from ictcli.engine.packing import chunks
from ictcli.engine.sampling import NotFiniteError
from ictcli.engine.score import COMPARED, HELD
from ictcli.engine.shape import ModelShape, read_shape
from ictcli.errors import RunFailedError, UserError
from ictcli.files import numbered
from ictcli.planning.machine import memory_limit
from ictcli.recipe import Recipe
from ictcli.runs.checkpoints import DAMAGE
from ictcli.runs.rollouts import batch_of, read_rollouts
from ictcli.types import BoolArray, FloatArray, Rollouts

RESPONSES = 64
LEAST = 0.99
MOVED = 1e-8
"""KL per token below which float32 cannot distinguish two models."""
UNMEASURED = "How much of the training this export keeps was not measured: {}."


@dataclass(frozen=True)
class Kept:
    """The share of training's effect that an export preserves, as a sentence for users."""

    sentence: str
    low: bool = False
    """Whether too little of the effect is preserved, so that a warning is printed."""
    reason: str = ""
    """Why nothing was measured. May contain paths on this machine, so it is not published."""


def measure(
    run: Path,
    step: int | None,
    recipe: Recipe,
    trained: Callable[[], Engine],
    others: Sequence[Callable[[], Engine]],
) -> Kept:
    """Compare a run's `trained` model with its base and its export (the two `others`), on responses
    recorded up to `step`. The models are loaded one at a time."""
    try:
        shape, limit = read_shape(recipe.model), memory_limit(recipe.engine).size
        rollouts = _recorded(run, step, shape)
        if rollouts is None:
            return Kept(UNMEASURED.format("the run recorded no rollouts"))
        needed = 4 * (shape.parameters + 3 * HELD)
        if limit and needed > limit:
            sizes = f"{needed / 2**30:.1f} GiB in float32, of {limit / 2**30:.1f} GiB available"
            return Kept(UNMEASURED.format(f"this needs {sizes}"))
        where = _chosen(rollouts, HELD // shape.vocabulary)
        p = _logits(trained, rollouts, where)
        base, exported = (_divergence(p, _logits(other, rollouts, where)) for other in others)
    except NotFiniteError:  # the error's own message speaks of sampling
        return Kept("A model gives numbers that are not finite.", low=True)
    except (UserError, RunFailedError, *DAMAGE, OSError, MemoryError) as error:
        return Kept(
            UNMEASURED.format("a model or the rollouts could not be read"), reason=str(error)
        )
    measured = (
        f"KL per token from the trained model is {exported:.1e} to this export and {base:.1e} "
        f"to the base ({len(rollouts)} recorded responses, {len(p):,} tokens)"
    )
    if not np.isfinite([base, exported]).all():
        return Kept(f"A model gives numbers that are not finite: {measured}.", low=True)
    if base < MOVED:
        return Kept(f"Training hardly changed the model: {measured}.", low=exported >= MOVED)
    share = 1 - exported / base
    percent = "more than 99.9 %" if share >= 0.9995 else f"{100 * share:.1f} %"
    percent = percent if share > 0 else "nothing"
    return Kept(f"This export keeps {percent} of what training changed: {measured}.", share < LEAST)


def _recorded(run: Path, step: int | None, shape: ModelShape) -> Rollouts | None:
    """Return up to `RESPONSES` responses of the last recorded step up to `step`, or of the first
    step if all are later; None if there are none that the model can process."""
    files = numbered(run / "rollouts", r"step-(\d+)\.safetensors")
    before = [path for number, path in files if step is None or number <= step]
    if not files:
        return None
    rollouts = batch_of(*read_rollouts(before[-1] if before else files[0][1])).rollouts
    rows = np.array([row for row in range(len(rollouts)) if _is_readable(rollouts, row, shape)])
    if not len(rows):
        return None
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), RESPONSES)).astype(int)]
    return rollouts.take(rows, [rollouts.prompt_of(int(row)) for row in rows], 1)


def _is_readable(rollouts: Rollouts, row: int, shape: ModelShape) -> bool:
    """Return whether a prompt and response are not empty and fit the vocabulary and context."""
    prompt, length = rollouts.prompt_of(row), int(rollouts.lengths[row])
    in_vocabulary = max((*prompt, *rollouts.tokens[row])) < shape.vocabulary
    return in_vocabulary and bool(prompt) and 0 < length <= shape.context - len(prompt)


def _chosen(rollouts: Rollouts, most: int) -> BoolArray:
    """Return a mask (B, T) of at most `most` response tokens, evenly spaced."""
    tokens = np.flatnonzero(rollouts.valid)
    where = np.zeros(rollouts.valid.shape, dtype=bool)
    places = np.linspace(0, len(tokens) - 1, min(len(tokens), max(most, 1))).astype(int)
    where.flat[tokens[places]] = True
    return where


def _logits(build: Callable[[], Engine], rollouts: Rollouts, where: BoolArray) -> FloatArray:
    engine = build()
    engine.compute_in_float32()
    return engine.logits(rollouts, where)


def _divergence(p: FloatArray, q: FloatArray) -> float:
    """Return the mean KL(p || q) in nats of logits (N, V)."""
    total = 0.0
    for rows in chunks(len(p), max(COMPARED // p.shape[1], 1)):
        logp, logq = _log_softmax(p[rows]), _log_softmax(q[rows])
        total += float((np.exp(logp) * (logp - logq)).sum())
    return max(total / len(p), 0.0)


def _log_softmax(logits: FloatArray) -> FloatArray:
    x = logits.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))

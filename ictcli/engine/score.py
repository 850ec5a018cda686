"""Statistics of existing rollouts, computed by passes of the model."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ictcli.algorithm.objective import token_logp
from ictcli.algorithm.quantities import statistic
from ictcli.engine.packing import chunks
from ictcli.types import LOGP, BoolArray, FloatArray, IntArray, Rollouts

HELD, COMPARED = 1 << 26, 1 << 22
"""Maximum number of logits that one pass returns (256 MB), and of logits whose statistics are
computed at once in float64. Both limit memory."""

Logits = Callable[[Rollouts, BoolArray], FloatArray]
"""The type of `Engine.logits`."""


def measure(
    engine: Any, rollouts: Rollouts, where: BoolArray, wanted: Sequence[str], temperature: float
) -> FloatArray:
    """Return (B, T, n) float32: the n `wanted` values at the tokens in `where` (B, T). A value is
    the log-probability at `temperature`, or a statistic that does not compare rows."""
    xp = engine.passes.xp

    def of(logits: Any, tokens: Any) -> Any:
        values = [
            token_logp(xp, logits, tokens, temperature)
            if name == LOGP
            else statistic(name).at(xp, xp.softmax(logits, axis=-1), tokens)
            for name in wanted
        ]
        return xp.stack(values).T

    values = np.zeros((*rollouts.tokens.shape, len(wanted)), dtype=np.float32)
    for batch in engine.micro_batches(rollouts, where) if wanted else ():
        values[batch.rows, batch.positions] = engine.passes.evaluate(batch, of)
    return values


def compare(
    logits: Logits, vocabulary: int, rollouts: Rollouts, wanted: Sequence[str]
) -> dict[str, FloatArray]:
    """Return `Engine.score` for statistics that compare p with a mean over rows. They are computed
    in float64, and never below 0. Means over more than one position need an additional pass."""
    values = {name: np.zeros(rollouts.tokens.shape, dtype=np.float32) for name in wanted}
    at_once = max(HELD // (vocabulary * rollouts.group), 1)

    def probabilities(where: BoolArray) -> FloatArray:
        p = logits(rollouts, where)
        p = np.exp(p - p.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        return p

    def row_sums(parts: Sequence[BoolArray], group: slice) -> FloatArray:
        """Return the sum of p over the tokens of each row of a group, (G, V) float64."""
        sums = np.zeros((rollouts.group, vocabulary))
        for where in parts:
            p, rows = probabilities(where), np.nonzero(where)[0] - group.start
            for row in np.unique(rows):
                sums[row] += p[rows == row].sum(axis=0, dtype=np.float64)
        return sums

    for mean_over in dict.fromkeys(statistic(name).mean_over for name in wanted):
        names = [name for name in wanted if statistic(name).mean_over == mean_over]
        tokens = parted(rollouts) if mean_over == "position" else rollouts.valid
        for first in range(0, len(rollouts), rollouts.group):
            group = slice(first, first + rollouts.group)
            parts = _parts(tokens, group, at_once)
            row_means = None
            if mean_over != "position":
                row_means = row_sums(parts, group)
                lengths = np.maximum(rollouts.lengths[group, None], 1)
                if mean_over == "group":
                    row_means[:], lengths = row_means.sum(axis=0), lengths.sum()
                row_means /= lengths
            for where in parts:
                p, (rows, positions) = probabilities(where), np.nonzero(where)
                means, mean_of = row_means, rows - first
                if means is None:
                    means, mean_of = position_means(p, positions)
                for chunk in chunks(len(p), max(COMPARED // vocabulary, 1)):
                    pair = p[chunk].astype(np.float64), means[mean_of[chunk]]
                    for name in names:
                        measured = statistic(name).formula(np, *pair)
                        values[name][rows[chunk], positions[chunk]] = np.maximum(measured, 0.0)
    return values


def parted(rollouts: Rollouts) -> BoolArray:
    """Return a mask (B, T) of tokens at positions where some prefixes of their group differ."""
    groups = (-1, rollouts.group, rollouts.tokens.shape[1])
    tokens, valid = rollouts.tokens.reshape(groups), rollouts.valid.reshape(groups)
    longest = np.take_along_axis(tokens, valid.sum(-1).argmax(-1)[:, None, None], axis=1)
    differs = tokens != longest
    diverged = np.cumsum(differs, axis=-1) > differs  # at an earlier token
    return (valid & (diverged & valid).any(axis=1, keepdims=True)).reshape(rollouts.tokens.shape)


def _parts(wanted: BoolArray, group: slice, positions: int) -> list[BoolArray]:
    """Return masks (B, T) of a group's `wanted` tokens, for `positions` positions at a time."""
    parts: list[BoolArray] = []
    for t in range(0, wanted.shape[1], positions):
        where = np.zeros_like(wanted)
        where[group, t : t + positions] = wanted[group, t : t + positions]
        if where.any():
            parts.append(where)
    return parts


def position_means(p: FloatArray, positions: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the mean of p (N, V) at each position, float64, and the index of each row's mean."""
    _, number, counts = np.unique(positions, return_inverse=True, return_counts=True)
    order = np.argsort(number, kind="stable")
    starts = np.cumsum(counts) - counts
    return np.add.reduceat(p[order], starts, axis=0, dtype=np.float64) / counts[:, None], number

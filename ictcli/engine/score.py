"""Statistics of given rollouts, by passes of the model."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ictcli.algorithm.objective import token_logp
from ictcli.algorithm.quantities import statistic
from ictcli.engine.packing import chunks
from ictcli.types import LOGP, BoolArray, FloatArray, IntArray, Rollouts

HELD, COMPARED = 1 << 26, 1 << 22
"""Logits that one pass may give (256 MB): those of a large vocabulary at all tokens would fill the
memory. And those whose statistics are taken in float64 at once."""

Logits = Callable[[Rollouts, BoolArray], FloatArray]
"""`Engine.logits`."""


def measure(
    engine: Any, rollouts: Rollouts, where: BoolArray, wanted: Sequence[str], temperature: float
) -> FloatArray:
    """(B, T, n) float32: log-probabilities at `temperature`, and statistics that compare nothing,
    where `where` (B, T) is True."""
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
    """Return `Engine.score` of what compares p with the group's mean, in float64 and never below
    0."""
    values = {name: np.zeros(rollouts.tokens.shape, dtype=np.float32) for name in wanted}
    at_once = max(HELD // (vocabulary * rollouts.group), 1)
    for where in _parts(parted(rollouts), rollouts.group, at_once) if wanted else ():
        p = logits(rollouts, where)
        p = np.exp(p - p.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        means, position = position_means(p, np.nonzero(where)[1])
        for name, of_all in values.items():
            measured = np.empty(len(p))
            for some in chunks(len(p), max(COMPARED // vocabulary, 1)):
                pair = p[some].astype(np.float64), means[position[some]]
                measured[some] = statistic(name).formula(np, *pair)
            of_all[where] = np.maximum(measured, 0.0)
    return values


def parted(rollouts: Rollouts) -> BoolArray:
    """(B, T): the tokens at positions that two different prefixes of a group lead to."""
    groups = (-1, rollouts.group, rollouts.tokens.shape[1])
    tokens, valid = rollouts.tokens.reshape(groups), rollouts.valid.reshape(groups)
    longest = np.take_along_axis(tokens, valid.sum(-1).argmax(-1)[:, None, None], axis=1)
    other = tokens != longest
    moved = np.cumsum(other, axis=-1) > other  # before the token
    return (valid & (moved & valid).any(axis=1, keepdims=True)).reshape(rollouts.tokens.shape)


def _parts(wanted: BoolArray, group: int, positions: int) -> Iterator[BoolArray]:
    """Yield the `wanted` tokens (B, T), so many positions of one group at a time."""
    for first in range(0, len(wanted), group):
        for t in range(0, wanted.shape[1], positions):
            where = np.zeros_like(wanted)
            place = slice(first, first + group), slice(t, t + positions)
            where[place] = wanted[place]
            if where.any():
                yield where


def position_means(p: FloatArray, positions: IntArray) -> tuple[FloatArray, IntArray]:
    """The mean of p (N, V) over each position (N,), float64, and which of them is each token's."""
    _, number, counts = np.unique(positions, return_inverse=True, return_counts=True)
    order = np.argsort(number, kind="stable")
    starts = np.cumsum(counts) - counts
    return np.add.reduceat(p[order], starts, axis=0, dtype=np.float64) / counts[:, None], number

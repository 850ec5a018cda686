"""Statistics of given rollouts, by passes of the model."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ictcli.algorithm.objective import token_logp
from ictcli.algorithm.quantities import Statistic, statistic
from ictcli.engine.packing import chunks
from ictcli.types import LOGP, BoolArray, FloatArray, IntArray, Rollouts

HELD, COMPARED = 1 << 26, 1 << 22
"""Logits that one pass may give (256 MB): those of a large vocabulary at all tokens would fill the
memory. And those whose statistics are taken in float64 at once."""

Logits = Callable[[Rollouts, BoolArray], FloatArray]
"""`Engine.logits`."""
Part = tuple[BoolArray, FloatArray, FloatArray, IntArray]
"""N tokens (B, T), their p (N, V), and q and row (N,) where q[row] is what they compare with."""


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
    """`Engine.score` of what compares p with the group's mean."""
    room = max(HELD // vocabulary, 1)
    found = {name: np.zeros(rollouts.tokens.shape, dtype=np.float32) for name in wanted}
    for name, values in found.items():
        for where, p, q, row in _against_means(logits, room, rollouts):
            values[where] = _values(statistic(name), p, q, row)
    return found


def _values(each: Statistic, p: FloatArray, q: FloatArray, row: IntArray) -> FloatArray:
    """(N,) in float64, part by part; never below 0."""
    found = np.empty(len(p))
    for some in chunks(len(p), max(COMPARED // p.shape[1], 1)):
        found[some] = each(np, *(x.astype(np.float64) for x in (p[some], q[row[some]])))
    return np.maximum(found, 0.0)


def _distributions(logits: Logits, rollouts: Rollouts, where: BoolArray) -> FloatArray:
    values = logits(rollouts, where)
    p = np.exp(values - values.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return p


def shared_positions(rollouts: Rollouts) -> IntArray:
    """(B, T): a number for each position of a group that two different prefixes lead to; -1 for
    other tokens, and after ends."""
    found = np.full(rollouts.tokens.shape, -1)
    for first in range(0, len(rollouts), rollouts.group):
        rows = slice(first, first + rollouts.group)
        tokens, valid = rollouts.tokens[rows], rollouts.valid[rows]
        for t in range(tokens.shape[1]):
            if len({row[:t].tobytes() for row in tokens[valid[:, t]]}) > 1:
                found[rows, t][valid[:, t]] = first * tokens.shape[1] + t
    return found


def _against_means(logits: Logits, room: int, rollouts: Rollouts) -> Iterator[Part]:
    """Tokens with the mean of their position, whole ones of one group at a time."""
    positions = shared_positions(rollouts)
    group = np.arange(len(rollouts))[:, None] // rollouts.group
    for n in range(len(rollouts.prompts)):
        for where in _whole_positions(np.where(group == n, positions, -1), room):
            p = _distributions(logits, rollouts, where)
            yield where, p, *position_means(p, positions[where])


def position_means(p: FloatArray, positions: IntArray) -> tuple[FloatArray, IntArray]:
    """The mean of p (N, V) over each position (N,), float64, and which of them is each token's."""
    _, number, counts = np.unique(positions, return_inverse=True, return_counts=True)
    order = np.argsort(number, kind="stable")
    starts = np.cumsum(counts) - counts
    return np.add.reduceat(p[order], starts, axis=0, dtype=np.float64) / counts[:, None], number


def _whole_positions(positions: IntArray, room: int) -> Iterator[BoolArray]:
    """Masks of whole positions that together hold all of them, `room` tokens or one position
    each."""
    numbers, counts = np.unique(positions[positions >= 0], return_counts=True)
    first = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or counts[first : end + 1].sum() > room:
            yield np.isin(positions, numbers[first:end])
            first = end

"""The distributions at a rollout's tokens, part by part: those of a large vocabulary at all tokens
would fill the memory."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ictcli.engine import Engine
from ictcli.engine.packing import chunks
from ictcli.types import BoolArray, FloatArray, IntArray, Rollouts

HELD, COMPARED = 1 << 26, 1 << 22
"""Logits that one pass may give (256 MB), and those that are compared in float64 at once."""


def room_of(engine: Engine) -> int:
    """Tokens of which one pass may give the logits."""
    return max(HELD // len(engine.tokenizer), 1)


def distributions(engine: Engine, rollouts: Rollouts, where: BoolArray) -> FloatArray:
    """(N, V) float32, at the N tokens that `where` (B, T) marks."""
    logits = engine.logits(rollouts, where)
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return p


def divergences(
    divergence: Callable[[Any, FloatArray, FloatArray], FloatArray],
    p: FloatArray,
    q: FloatArray,
    row: IntArray,
) -> FloatArray:
    """(N,) `divergence` of p (N, V) and q[row], row (N,), in float64; never below 0."""
    found = np.empty(len(p))
    for some in chunks(len(p), max(COMPARED // p.shape[1], 1)):
        pair = (each.astype(np.float64) for each in (p[some], q[row[some]]))
        found[some] = divergence(np, *pair)
    return np.maximum(found, 0.0)


def pieces(where: BoolArray, room: int) -> Iterator[BoolArray]:
    """Masks of at most `room` tokens each, row by row, that together are `where` (B, T)."""
    number = np.cumsum(where).reshape(where.shape) - 1
    for first in range(0, int(where.sum()), room):
        yield where & (first <= number) & (number < first + room)

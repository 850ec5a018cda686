"""Token statistics from probabilities that are already there: no extra forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

import mlx.core as mx
import numpy as np

from ictcli.algorithm.quantities import GROUP_QUANTITY, entropy, purity
from ictcli.types import BoolArray, IntArray

PENDING_ELEMENTS = 1 << 18
"""Probabilities whose statistics are taken in one go (1 MB): a small vocabulary's steps are
pooled, since there the calls would cost more than the arithmetic; a large one's are taken group by
group."""


GPU_ELEMENTS = 1 << 26
"""The same where there is no cache to fit and every call costs a launch: 256 MB."""


class StatsRecorder:
    """Collects the distributions of decoding steps and turns them into statistics (B, T).

    `wanted` are names of `TokenStats`; nothing else is computed. Which rows still agree is decided
    on the host, which knows every token: so divergences are taken of the others alone.
    """

    def __init__(self, wanted: Sequence[str], B: int, T: int, group: int, compiled: bool) -> None:
        self.wanted = wanted
        self.group = group
        self._shape = (B, T)
        self._pending: list[tuple[mx.array, IntArray, IntArray, IntArray, int]] = []
        self._elements = 0
        self._taken: list[tuple[IntArray, IntArray, dict[str, mx.array]]] = []
        self._quantity = partial(_quantity, compiled=compiled)

    def add(self, p: mx.array, rows: IntArray, tokens: IntArray, prefix: IntArray, t: int) -> None:
        """One step: probabilities (R, V) of the rows alive (R,), in ascending order, the tokens
        they drew (R,), and a hash of what each wrote before (R,).
        """
        if not self.wanted:
            return
        self._pending.append((p, rows, tokens, prefix, t))
        self._elements += p.size
        if self._elements >= PENDING_ELEMENTS:
            self.flush()

    def flush(self) -> None:
        """Take the statistics of everything pending, some whole groups at a time."""
        if not self._pending:
            return
        parts, rows, tokens, prefix, at = map(list, zip(*self._pending, strict=True))
        p: mx.array = mx.concatenate(parts) if len(parts) > 1 else parts[0]
        position = np.repeat(at, [len(part) for part in rows])
        row, token, hashed = (np.concatenate(part) for part in (rows, tokens, prefix))
        self._pending, self._elements = [], 0
        segment = position * self._shape[0] + row // self.group
        on_cpu = mx.default_device().type == mx.cpu
        limit = max((PENDING_ELEMENTS if on_cpu else GPU_ELEMENTS) // p.shape[1], 1)
        for part in whole_segments(segment, limit):
            mine = p if part == slice(0, len(row)) else p[part]
            found = self._take(mine, token[part], segment[part], hashed[part])
            # bounds memory: the temporaries of a part are many times its probabilities
            mx.async_eval(found)
            self._taken.append((row[part], position[part], found))

    def arrays(self) -> dict[str, np.ndarray]:
        """Every statistic (B, T) float32, 0 behind ends."""
        self.flush()
        values = {name: np.zeros(self._shape, dtype=np.float32) for name in self.wanted}
        for row, position, found in self._taken:
            for name, taken in found.items():
                values[name][row, position] = np.array(taken)
        return values

    def _take(
        self, p: mx.array, tokens: IntArray, segment: IntArray, prefix: IntArray
    ) -> dict[str, mx.array]:
        found: dict[str, mx.array] = {}
        if "entropy" in self.wanted:
            found["entropy"] = self._quantity("entropy")(p)
        if "purity" in self.wanted:
            found["purity"] = self._quantity("purity")(p)
        if "prob" in self.wanted:
            found["prob"] = mx.take_along_axis(p, mx.array(tokens)[:, None], axis=-1)[:, 0]
        divergences = [name for name in self.wanted if name in GROUP_QUANTITY]
        if divergences:
            found.update(self._divergences(p, segment, prefix, divergences))
        return found

    def _divergences(
        self, p: mx.array, segment: IntArray, prefix: IntArray, names: Sequence[str]
    ) -> dict[str, mx.array]:
        """Divergence of each row p (N, V) from the mean of its segment: a prompt's rows at one
        step.

        A segment whose rows all share one prefix has one distribution; its divergences are exactly
        0, not the rounding of a batched matrix product. That covers t = 1 and a row left alone.
        """
        slots, member = _slots(segment, prefix)
        if slots.size == 0:
            return {name: mx.zeros(len(segment)) for name in names}
        k, width = slots.shape
        whole = slots.size == len(segment)
        mine = (p if whole else p[mx.array(slots.reshape(-1))]).reshape(k, width, -1)
        if member.all():
            mean = mine.mean(axis=1, keepdims=True)
        else:  # groups of which some rows have ended: the empty slots repeat a row, and count 0
            share = (member / member.sum(axis=1, keepdims=True)).astype(np.float32)
            mean = (mine * mx.array(share)[:, :, None]).sum(axis=1, keepdims=True)
        where = mx.array(slots[member])
        inside = mx.array(np.flatnonzero(member))
        found: dict[str, mx.array] = {}
        for name in names:
            values = self._quantity(name)(mine, mean).reshape(-1)
            if not whole:
                spread = mx.zeros(len(segment))
                spread[where] = values[inside]
                values = spread
            found[name] = values
        return found


def _slots(segment: IntArray, prefix: IntArray) -> tuple[IntArray, BoolArray]:
    """(K, W) indices of the rows of each segment whose rows have parted, and which slots are real;
    W is the largest such segment."""
    starts = np.flatnonzero(np.r_[True, segment[1:] != segment[:-1]])
    counts = np.diff(np.r_[starts, len(segment)])
    apart = np.logical_or.reduceat(prefix != np.repeat(prefix[starts], counts), starts)
    starts, counts = starts[apart], counts[apart]
    offsets = np.arange(counts.max(initial=0))[None, :]
    member = np.asarray(offsets < counts[:, None])
    return np.where(member, starts[:, None] + offsets, starts[:, None]), member


def whole_segments(segment: IntArray, limit: int) -> Iterator[slice]:
    """Cut N neighbours into slices of whole segments, of `limit` rows at most or one segment: the
    temporaries of a 152k vocabulary are many times its probabilities."""
    starts = np.flatnonzero(np.r_[True, segment[1:] != segment[:-1]])
    first = last = 0
    for end in [*starts[1:].tolist(), len(segment)]:
        if last > first and end - first > limit:
            yield slice(first, last)
            first = last
        last = end
    yield slice(first, last)


@cache
def _quantity(name: str, compiled: bool) -> Any:
    """A quantity over mlx.core; compiled, its dozen passes over (N, V) become one or two."""
    over = {"entropy": entropy, "purity": purity, **GROUP_QUANTITY}[name]
    function = partial(over, mx)
    return mx.compile(function, shapeless=True) if compiled else function

"""Token statistics from what decoding has at hand: no extra forward pass."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ictcli.algorithm.quantities import statistic
from ictcli.types import FloatArray, IntArray


class StatsRecorder(ABC):
    """Collects what decoding steps compute on a device, and turns it into statistics (B, T).

    `wanted` are names of statistics; nothing else is computed. Steps are pooled until they have
    `pending` elements, since for a small vocabulary the calls cost more than the arithmetic; then
    at most `at_once` elements, or one segment, are measured together: the temporaries of a large
    vocabulary are many times its logits. A segment is a prompt's rows at one step. If they share
    one prefix they have one distribution, and divergences of exactly 0; the host, which knows every
    token, leaves those out.
    """

    def __init__(
        self, xp: Any, wanted: Sequence[str], B: int, T: int, group: int, pending: int, at_once: int
    ) -> None:
        self.xp, self.group = xp, group
        self.wanted = {name: statistic(name) for name in wanted}
        late = [name for name, each in self.wanted.items() if not each.while_decoding]
        assert not late, f"{late} are not taken while decoding: Engine.score gives them"
        self._shape, self._limits = (B, T), (pending, at_once)
        self._pending: list[tuple[Any, IntArray, IntArray, IntArray, IntArray]] = []
        self._elements = 0
        self._measured: list[tuple[IntArray, IntArray, dict[str, Any]]] = []

    @abstractmethod
    def on_device(self, places: IntArray) -> Any:
        """Places as an index of the device's arrays."""

    @abstractmethod
    def to_host(self, values: Any) -> FloatArray:
        """A device's array as NumPy's."""

    @abstractmethod
    def means(self, p: Any, counts: IntArray) -> tuple[Any, Any]:
        """p (M, V) in segments of `counts` (K,) rows, and the mean of each row's segment, in shapes
        that fit each other."""

    def formula(self, name: str) -> Callable[..., Any]:
        """The formula of a statistic over the device's arrays."""
        return partial(self.wanted[name], self.xp)

    def measure(
        self, values: Any, tokens: IntArray, apart: IntArray, counts: IntArray
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Statistics (N,) of what `add` was given (N, V), and those of a group of the rows `apart`
        (M,): whole segments, of `counts` (K,) rows each; none where `apart` is empty."""
        p = self.xp.softmax(values, axis=-1)
        drawn = self.on_device(tokens)
        compared = [name for name, each in self.wanted.items() if each.compares]
        rows = {
            name: self.formula(name)(p) if each.kind == "alone" else each.at(self.xp, p, drawn)
            for name, each in self.wanted.items()
            if not each.compares
        }
        if not len(apart) or not compared:
            return rows, {}
        pair = self.means(p if len(apart) == len(p) else p[self.on_device(apart)], counts)
        return rows, {name: self.formula(name)(*pair).reshape(-1) for name in compared}

    def add(self, values: Any, rows: IntArray, tokens: IntArray, prefix: IntArray, t: int) -> None:
        """Step t: logits (R, V) float32 of the rows alive (R,), in ascending order, the tokens they
        drew (R,), and a hash of what each wrote before (R,)."""
        self._pending.append((values, rows, tokens, prefix, np.full(len(rows), t)))
        self._elements += values.shape[0] * values.shape[1]
        if self._elements >= self._limits[0]:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        parts, *host = map(list, zip(*self._pending, strict=True))
        row, token, prefix, position = map(np.concatenate, host)
        values = self.xp.concatenate(parts) if len(parts) > 1 else parts[0]
        self._pending, self._elements = [], 0
        segment = position * self._shape[0] + row // self.group
        limit = max(self._limits[1] // values.shape[1], 1)
        for part in _whole_segments(segment, limit):
            some = values if part == slice(0, len(row)) else values[part]
            apart, counts = _parted(segment[part], prefix[part])
            rows, divergences = self.measure(some, token[part], apart, counts)
            self._measured.append((row[part], position[part], rows))
            self._measured.append((row[part][apart], position[part][apart], divergences))

    def arrays(self) -> dict[str, FloatArray]:
        """Every statistic (B, T) float32, 0 after ends."""
        self._flush()
        values = {name: np.zeros(self._shape, dtype=np.float32) for name in self.wanted}
        for row, position, measured in self._measured:
            for name, x in measured.items():
                values[name][row, position] = self.to_host(x)
        return values


def _starts(segment: IntArray) -> IntArray:
    return np.flatnonzero(np.r_[True, segment[1:] != segment[:-1]])


def _parted(segment: IntArray, prefix: IntArray) -> tuple[IntArray, IntArray]:
    """Indices (M,) of the rows whose segments hold more than one prefix, and how many rows each of
    those segments has (K,)."""
    starts = _starts(segment)
    counts = np.diff(np.r_[starts, len(segment)])
    parted = np.logical_or.reduceat(prefix != np.repeat(prefix[starts], counts), starts)
    return np.flatnonzero(np.repeat(parted, counts)), counts[parted]


def _whole_segments(segment: IntArray, limit: int) -> Iterator[slice]:
    """Cut N neighbours into slices of whole segments, of `limit` rows at most or one segment."""
    first = last = 0
    for end in [*_starts(segment)[1:].tolist(), len(segment)]:
        if last > first and end - first > limit:
            yield slice(first, last)
            first = last
        last = end
    yield slice(first, last)

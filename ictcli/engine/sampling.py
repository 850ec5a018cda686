"""Sampling, apart from the model: drawing tokens, collecting them as `Rollouts`, and token
statistics from the logits of decoding, without an extra forward pass."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ictcli.algorithm.objective import pick, tempered, token_logp
from ictcli.algorithm.quantities import statistic
from ictcli.errors import RunFailedError
from ictcli.types import BoolArray, FloatArray, IntArray, OnTokens, Rollouts, Sampling

Prompts = Sequence[Sequence[int]]
MULTIPLIER, INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)
"""Knuth's constants of a linear congruential generator, used to hash a prefix."""


def draw(
    xp: Any, logits: Any, uniform: Any, sampling: Sampling, *, parallel: bool
) -> tuple[Any, Any]:
    """Draw one token per row by inverting the CDF at `uniform` (R,); return tokens (R,) and log p.

    A row's token does not depend on other rows. log p is the log of softmax(L / temperature) before
    top-p and top-k, as in an update. `logits` are (R, V) float32. `parallel`: the device computes
    cumsum in parallel, so the sums may decrease by rounding."""
    if sampling.temperature == 0:
        token = xp.argmax(logits, axis=-1)
        return token, token_logp(xp, logits, token, 1)
    scaled = tempered(logits, sampling.temperature)
    scaled = scaled - xp.max(scaled, axis=-1, keepdims=True)
    weight = xp.exp(scaled)  # softmax without its normalisation
    total = xp.sum(weight, axis=-1)
    cut = weight
    if sampling.top_k or sampling.top_p < 1:
        cut = xp.where(_nucleus(xp, weight / total[:, None], sampling), weight, 0.0)
    cdf = xp.cumsum(cut, axis=-1)
    target = xp.clip(uniform, 0, 1 - 2**-23)[:, None] * cdf[:, -1:]
    token = xp.clip(xp.searchsorted(cdf, target, right=True)[:, 0], 0, logits.shape[-1] - 1)
    if parallel or cut is not weight:  # else a token of probability 0 may be drawn
        token = xp.where(pick(xp, cut, token) > 0, token, xp.argmax(cut, axis=-1))
    return token, pick(xp, scaled, token) - xp.log(total)


def _nucleus(xp: Any, p: Any, sampling: Sampling) -> Any:
    """Return a mask (R, V) of tokens in both the top-k and the smallest set of mass top-p."""
    order = xp.argsort(-p, axis=-1)
    ordered = xp.take_along_axis(p, order, -1)
    keep = (xp.cumsum(ordered, axis=-1) - ordered) < sampling.top_p
    if sampling.top_k:
        keep[:, sampling.top_k :] = False
    return xp.put_along_axis(xp.zeros_like(keep), order, keep, -1)


class NotFiniteError(RunFailedError):
    """A model's logits are infinite or NaN; each of the `rollouts` ends at its first such place."""

    def __init__(self, rollouts: Rollouts) -> None:
        self.rollouts = rollouts
        rows = int((~np.isfinite(rollouts.logp)).any(axis=1).sum())
        super().__init__(
            "The model's logits are infinite or not a number in "
            f"{rows:,} of {len(rollouts):,} responses.",
            "set engine.dtype=float32 if the model overflows in 16 bits; if its weights are "
            "damaged, use an earlier checkpoint, or train with a smaller lr",
        )


class Written:
    """The tokens drawn so far for B rows that decode in lock-step."""

    def __init__(self, B: int, sampling: Sampling, on_tokens: OnTokens | None = None) -> None:
        shape = (B, sampling.max_tokens)
        self.on_tokens = on_tokens
        self.stops = np.array(sampling.stop_ids)[:, None]
        self.tokens = np.zeros(shape, dtype=np.int32)
        self.logp = np.zeros(shape, dtype=np.float32)
        self.lengths = np.full(B, sampling.max_tokens, dtype=np.int32)
        self.finished = np.zeros(B, dtype=np.bool_)
        self.prefix = np.zeros(B, dtype=np.uint64)
        """A hash of each row's tokens so far."""

    def add(self, t: int, rows: IntArray, tokens: IntArray, logp: FloatArray) -> BoolArray:
        """Add token t of the unfinished rows (R,), and return a mask (R,) of rows that end with it:
        it is a stop token, or its log p is not finite. `on_tokens` gets no token without log p."""
        self.tokens[rows, t], self.logp[rows, t] = tokens, logp
        self.prefix[rows] = self.prefix[rows] * MULTIPLIER + (tokens.astype(np.uint64) + INCREMENT)
        stopped, drawn = (tokens == self.stops).any(axis=0), np.isfinite(logp)
        ended = stopped | ~drawn
        self.lengths[rows[ended]], self.finished[rows] = t + 1, stopped & drawn
        if self.on_tokens:
            self.on_tokens(t, rows[drawn], tokens[drawn])
        return ended

    def rollouts(self, prompts: Prompts, group: int, stats: Mapping[str, FloatArray]) -> Rollouts:
        """Return all rollouts, cut after the end of the longest row."""
        T = int(self.lengths.max(initial=1))
        return Rollouts(
            prompts=tuple(tuple(prompt) for prompt in prompts),
            group=group,
            tokens=self.tokens[:, :T],
            lengths=self.lengths,
            finished=self.finished,
            logp=self.logp[:, :T],
            stats={name: values[:, :T] for name, values in stats.items()},
        )


def in_passes(
    prompts: Prompts,
    group: int,
    rows_at_once: int,
    numbers: FloatArray,
    decode: Callable[[Prompts, FloatArray, IntArray], Rollouts],
) -> Rollouts:
    """Decode with calls of `decode` for whole groups: at most `rows_at_once` rows, or one group.

    `numbers` (B, T) are the uniform numbers of the draws. `decode` gets some of the prompts, the
    uniform numbers of their rows, and the indices of these rows among all B."""
    most = max(1, rows_at_once // group)
    parts: list[Rollouts] = []
    for first in range(0, len(prompts), most):
        part = prompts[first : first + most]
        rows = np.arange(first * group, (first + len(part)) * group)
        parts.append(decode(part, numbers[rows], rows))
    return join(parts)


def join(parts: Sequence[Rollouts]) -> Rollouts:
    """Concatenate the rollouts of several passes."""
    T = max(part.tokens.shape[1] for part in parts)

    def whole(values: Sequence[Any]) -> Any:
        wide = [x if x.ndim == 1 else np.pad(x, ((0, 0), (0, T - x.shape[1]))) for x in values]
        return np.concatenate(wide)

    return Rollouts(
        prompts=tuple(tuple(prompt) for part in parts for prompt in part.prompts),
        group=parts[0].group,
        tokens=whole([part.tokens for part in parts]),
        lengths=whole([part.lengths for part in parts]),
        finished=whole([part.finished for part in parts]),
        logp=whole([part.logp for part in parts]),
        stats={name: whole([part.stats[name] for part in parts]) for name in parts[0].stats},
    )


class Recorder(ABC):
    """Collects the logits of decoding steps on a device, and computes statistics (B, T) from them.

    `wanted` are the names of the statistics. Steps are pooled until they have `pending` logits,
    because with a small vocabulary the calls cost more than the arithmetic. Then at most `at_once`
    logits, or one segment, are processed together, which limits temporary memory. A segment is a
    prompt's rows at one step. If its rows all have the same prefix, they have the same distribution
    and divergences of exactly 0, which are not computed."""

    def __init__(
        self, xp: Any, wanted: Sequence[str], B: int, T: int, group: int, pending: int, at_once: int
    ) -> None:
        self.xp, self.group = xp, group
        self.wanted = {name: statistic(name) for name in wanted}
        self._shape, self._limits = (B, T), (pending, at_once)
        self._pending: list[tuple[Any, IntArray, IntArray, IntArray, IntArray]] = []
        self._elements = 0
        self._measured: list[tuple[IntArray, IntArray, dict[str, Any]]] = []

    @abstractmethod
    def on_device(self, places: IntArray) -> Any:
        """Return `places` as an index array on the device."""

    @abstractmethod
    def to_host(self, values: Any) -> FloatArray:
        """Return an array of the device as a NumPy array."""

    @abstractmethod
    def means(self, p: Any, counts: IntArray) -> tuple[Any, Any]:
        """Return p (M, V), whose segments have `counts` (K,) rows, and the mean of each row's
        segment, in shapes that broadcast together."""

    def formula(self, name: str) -> Callable[..., Any]:
        """Return the formula of a statistic over the device's arrays."""
        return partial(self.wanted[name].formula, self.xp)

    def measure(
        self, values: Any, tokens: IntArray, apart: IntArray, counts: IntArray
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the statistics (N,) of logits (N, V), and the group statistics (M,) of the rows
        `apart` (M,), which are segments of `counts` (K,) rows; without rows, there are none."""
        p = self.xp.softmax(values, axis=-1)
        drawn = self.on_device(tokens)
        compared = [name for name, stat in self.wanted.items() if stat.kind == "group"]
        rows = {
            name: self.formula(name)(p) if stat.kind == "alone" else stat.at(self.xp, p, drawn)
            for name, stat in self.wanted.items()
            if stat.kind != "group"
        }
        if not len(apart) or not compared:
            return rows, {}
        pair = self.means(p if len(apart) == len(p) else p[self.on_device(apart)], counts)
        return rows, {name: self.formula(name)(*pair).reshape(-1) for name in compared}

    def add(self, values: Any, rows: IntArray, tokens: IntArray, prefix: IntArray, t: int) -> None:
        """Add step t of the unfinished `rows` (R,), ascending: logits `values` (R, V) float32, the
        tokens drawn (R,), and a hash of each row's earlier tokens (R,)."""
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
            logits = values if part == slice(0, len(row)) else values[part]
            apart, counts = _parted(segment[part], prefix[part])
            rows, divergences = self.measure(logits, token[part], apart, counts)
            self._measured.append((row[part], position[part], rows))
            self._measured.append((row[part][apart], position[part][apart], divergences))

    def arrays(self) -> dict[str, FloatArray]:
        """Return every statistic by name, (B, T) float32, 0 after a row's end."""
        self._flush()
        values = {name: np.zeros(self._shape, dtype=np.float32) for name in self.wanted}
        for row, position, measured in self._measured:
            for name, x in measured.items():
                values[name][row, position] = self.to_host(x)
        return values


def _starts(segment: IntArray) -> IntArray:
    return np.flatnonzero(np.r_[True, segment[1:] != segment[:-1]])


def _parted(segment: IntArray, prefix: IntArray) -> tuple[IntArray, IntArray]:
    """Return indices (M,) of the rows whose segments hold more than one prefix, and the number of
    rows of each such segment (K,)."""
    starts = _starts(segment)
    counts = np.diff(np.r_[starts, len(segment)])
    parted = np.logical_or.reduceat(prefix != np.repeat(prefix[starts], counts), starts)
    return np.flatnonzero(np.repeat(parted, counts)), counts[parted]


def _whole_segments(segment: IntArray, limit: int) -> Iterator[slice]:
    """Yield slices of N rows with whole segments: at most `limit` rows each, or one segment."""
    first = last = 0
    for end in [*_starts(segment)[1:].tolist(), len(segment)]:
        if last > first and end - first > limit:
            yield slice(first, last)
            first = last
        last = end
    yield slice(first, last)

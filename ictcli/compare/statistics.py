"""Estimates of each variant, and its paired differences from a baseline: pure numbers, no files.

Run s of every variant saw the same prompts, evaluation problems and draws, so variants are compared
cell by cell, seed and problem, which cancels what they share; `crossed` then infers over seeds and
problems together. The usual ways are wrong with 3 to 10 seeds: `bench/worlds.py` measures them.

No exact permutation test can do this: that the runs of a seed may swap labels leaves 32
arrangements of 5 seeds, and 2 of 32 is 0.0625. So `p` buys its resolution with a normal law of
how runs vary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np

from ictcli.compare.crossed import LEVEL, Ends, Inference, infer, near_bound, p_near_bound
from ictcli.evaluation.passk import pass_at_k
from ictcli.tables import Span
from ictcli.types import FloatArray, IntArray

BEFORE = "(before)"
"""The label of the model before training."""

Scores = Mapping[str, Mapping[str, FloatArray]]
"""By metric, then by variant: (S, N) figures in [0, 1]; a row of NaN is a run that is missing."""


@dataclass(frozen=True)
class Estimate(Span):
    """A mean with its 95 % interval: over seeds and problems, or over problems alone with one seed
    or where nothing varies (`crossed.near_bound`). It has none where nothing varies over seeds of
    one problem."""

    seeds: int
    problems: int


@dataclass(frozen=True)
class PairedDifference(Estimate):
    """A paired difference with its two-sided tests."""

    p: float | None
    """Over what the interval is over; None where all differences are equal."""
    by_seed: Sequence[float] = ()
    """The mean difference of each seed that both finished."""
    p_holm: float | None = None
    """`p` after Holm's correction over its family."""
    low_holm: float | None = None
    high_holm: float | None = None
    """The interval at the level at which Holm's correction tests this difference: it leaves 0 out
    exactly where the difference is significant."""
    detectable_holm: float | None = None
    """The true difference that 4 of 5 comparisons of this size and variation would find at that
    level. None with one seed, where nothing varies, and where it is above 1: no such difference is
    possible."""

    @property
    def differs(self) -> bool:
        """Return whether it is significant for other seeds too, after any correction."""
        p = self.p if self.p_holm is None else self.p_holm
        return self.seeds > 1 and p is not None and p <= LEVEL


@dataclass(frozen=True)
class Evidence:
    """Values (S, N), each in [`floor`, 1], and intervals of their mean at any level."""

    cells: FloatArray
    floor: float

    @cached_property
    def inference(self) -> Inference:
        return infer(self.cells)

    @cached_property
    def is_near_bound(self) -> bool:
        return near_bound(self.cells, self.floor) is not None

    @property
    def p(self) -> float | None:
        """Two-sided, against a mean of 0."""
        p = self.inference.p
        if p is None or not self.is_near_bound:
            return p
        return max(p, p_near_bound(self.cells, self.floor))

    def ends(self, level: float = LEVEL) -> Ends | None:
        """Return the interval, cut to [`floor`, 1] and at least `near_bound` where that applies."""
        mean, half = self.inference.mean, self.inference.half(level)
        ends = None if half is None else (max(self.floor, mean - half), min(1.0, mean + half))
        if self.is_near_bound and (bounds := near_bound(self.cells, self.floor, level)):
            low, high = ends or bounds
            return min(low, bounds[0]), max(high, bounds[1])
        return ends

    def detectable(self, level: float) -> float | None:
        """Return what `PairedDifference.detectable_holm` is at a level."""
        size = self.inference.detectable(level) if len(self.cells) > 1 else None
        return None if size is not None and size > 1 else size

    def estimate(self) -> Estimate:
        S, N = self.cells.shape
        low, high = self.ends() or (None, None)
        return Estimate(self.inference.mean, low, high, seeds=S, problems=N)

    def difference(self) -> PairedDifference:
        """Return a difference with its tests, before any correction."""
        return PairedDifference(
            **asdict(self.estimate()),
            p=self.p,
            by_seed=self.cells.mean(axis=1).tolist(),
        )


def scores_of(correct: Mapping[str, IntArray], n: int, ks: Sequence[int]) -> Scores:
    """Return pass@k of each cell from counts of correct samples of n, (S, N) a variant.

    A row with a negative count is a run that is missing. ValueError unless 1 <= k <= n, c <= n.
    """

    def cells(counts: IntArray, k: int) -> FloatArray:
        missing = np.asarray((counts < 0).any(axis=1))
        flat = np.where(missing[:, None], 0, counts).ravel()
        passes = pass_at_k(n, flat, k).reshape(counts.shape)
        passes[missing] = np.nan
        return passes

    return {f"pass@{k}": {v: cells(counts, k) for v, counts in correct.items()} for k in ks}


def estimate(values: FloatArray) -> Estimate:
    """Return the mean of (S, N) values in [0, 1] with its interval; rows of NaN are left out.
    ValueError where no run is left."""
    return Evidence(_runs(values), 0.0).estimate()


def evidence(values: FloatArray, baseline: FloatArray) -> Evidence:
    """Test the mean of `values` - `baseline`, both (S, N) of the same seeds and problems. Seeds
    that miss either run are left out; ValueError if all do."""
    return Evidence(_runs(np.round(values - baseline, 12)), -1.0)  # equal values are equal


def paired(values: FloatArray, baseline: FloatArray) -> bool:
    """Return whether two (S, N) tables share a seed, so that `evidence` is defined."""
    return values.shape == baseline.shape and bool((~np.isnan(values + baseline).any(axis=1)).any())


def _runs(values: FloatArray) -> FloatArray:
    cells = values[~np.isnan(values).any(axis=1)]
    if cells.size == 0:
        raise ValueError("no run of any seed is left to judge")
    return cells

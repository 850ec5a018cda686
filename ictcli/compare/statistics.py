"""Compute estimates of each variant, and paired differences between variants, from scores.

Runs of the same seed have the same prompts, evaluation problems and random draws. So differences
are taken per seed and problem, which cancels what the runs share, and `crossed` computes intervals
over seeds and problems. Common tests have wrong error rates with few seeds: see `bench/worlds.py`.

An exact permutation test is too coarse: 5 seeds allow 32 ways to swap labels within seeds, so its
smallest p is 2 / 32 = 0.0625. `p` therefore assumes that effects are normally distributed.
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
"""Scores (S, N) in [0, 1] by metric and variant label; a row of NaN is a missing run."""


@dataclass(frozen=True)
class Estimate(Span):
    """A mean with its 95 % interval over seeds and problems. With one seed, or if the values do not
    vary (`crossed.near_bound`), the interval is over problems only. There is no interval if the
    values of a single problem do not vary."""

    seeds: int
    problems: int


@dataclass(frozen=True)
class PairedDifference(Estimate):
    """A paired difference with its two-sided tests."""

    p: float | None
    """Two-sided p over the seeds and problems of the interval; None if all values are equal."""
    by_seed: Sequence[float] = ()
    """The mean difference at each seed that both variants finished."""
    p_holm: float | None = None
    """`p` after Holm's correction over its family of tests."""
    low_holm: float | None = None
    high_holm: float | None = None
    """The ends of the interval at the level at which Holm's correction tests this difference. This
    interval excludes 0 exactly if the difference is significant."""
    detectable_holm: float | None = None
    """The true difference that would be significant in 4 of 5 comparisons like this one, after
    Holm's correction. None with one seed, if the values do not vary, or if it would exceed 1."""

    @property
    def differs(self) -> bool:
        """Return whether the difference is significant after correction; False with one seed."""
        p = self.p if self.p_holm is None else self.p_holm
        return self.seeds > 1 and p is not None and p <= LEVEL


@dataclass(frozen=True)
class Evidence:
    """Values `cells` (S, N) in [`floor`, 1], with the tests and intervals of their mean."""

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
        """Return the two-sided p of the null hypothesis that the true mean is 0."""
        p = self.inference.p
        if p is None or not self.is_near_bound:
            return p
        return max(p, p_near_bound(self.cells, self.floor))

    def ends(self, level: float = LEVEL) -> Ends | None:
        """Return the interval, cut to [`floor`, 1] and widened to `near_bound` if that applies."""
        mean, half = self.inference.mean, self.inference.half(level)
        ends = None if half is None else (max(self.floor, mean - half), min(1.0, mean + half))
        if self.is_near_bound and (bounds := near_bound(self.cells, self.floor, level)):
            low, high = ends or bounds
            return min(low, bounds[0]), max(high, bounds[1])
        return ends

    def detectable(self, level: float) -> float | None:
        """Return the detectable difference at a level (see `PairedDifference.detectable_holm`)."""
        size = self.inference.detectable(level) if len(self.cells) > 1 else None
        return None if size is not None and size > 1 else size

    def estimate(self) -> Estimate:
        S, N = self.cells.shape
        low, high = self.ends() or (None, None)
        return Estimate(self.inference.mean, low, high, seeds=S, problems=N)

    def difference(self) -> PairedDifference:
        """Return the mean, as a difference, with its interval and p before any correction."""
        return PairedDifference(
            **asdict(self.estimate()), p=self.p, by_seed=self.cells.mean(axis=1).tolist()
        )


def scores_of(correct: Mapping[str, IntArray], n: int, ks: Sequence[int]) -> Scores:
    """Return pass@k scores from the counts (S, N) of correct samples out of n, by variant label.

    A row with a negative count is a missing run. ValueError unless 1 <= k <= n and counts <= n."""

    def cells(counts: IntArray, k: int) -> FloatArray:
        missing = np.asarray((counts < 0).any(axis=1))
        flat = np.where(missing[:, None], 0, counts).ravel()
        passes = pass_at_k(n, flat, k).reshape(counts.shape)
        passes[missing] = np.nan
        return passes

    return {f"pass@{k}": {v: cells(counts, k) for v, counts in correct.items()} for k in ks}


def estimate(values: FloatArray) -> Estimate:
    """Return the mean of (S, N) values in [0, 1] with its interval; rows of NaN are left out.
    ValueError if no row is left."""
    return Evidence(_runs(values), 0.0).estimate()


def evidence(values: FloatArray, baseline: FloatArray) -> Evidence:
    """Return the paired differences `values` - `baseline`, both (S, N) of the same seeds and
    problems. Seeds that lack either run are left out; ValueError if no seed is left."""
    return Evidence(_runs(np.round(values - baseline, 12)), -1.0)  # removes rounding errors


def paired(values: FloatArray, baseline: FloatArray) -> bool:
    """Return whether two variants' (S, N) values share a finished seed, as `evidence` needs."""
    return values.shape == baseline.shape and bool((~np.isnan(values + baseline).any(axis=1)).any())


def _runs(values: FloatArray) -> FloatArray:
    cells = values[~np.isnan(values).any(axis=1)]
    if cells.size == 0:
        raise ValueError("no finished run is left to evaluate")
    return cells

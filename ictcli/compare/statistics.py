"""Estimates of each variant, and its paired differences from a baseline: pure numbers, no files.

Run s of every variant saw the same prompts, evaluation problems and draws, so variants are compared
cell by cell, seed and problem, which cancels what they share; `crossed` then infers over seeds and
problems together. The usual ways are wrong with 3 to 10 seeds: `bench/worlds.py` measures them.

No exact permutation test can do this: that the runs of a seed may swap labels (`p_swap`) leaves 32
arrangements of 5 seeds, and 2 of 32 is 0.0625. So `p` buys its resolution with a normal law of
how runs vary, and `p_swap` stands beside it for who will not grant that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np
from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

from ictcli.compare.crossed import LEVEL, Inference, infer, near_bound, p_near_bound
from ictcli.evaluation.passk import pass_at_k
from ictcli.tables.table import Span
from ictcli.types import FloatArray, IntArray

BEFORE = "(before)"
"""The label of the model before training."""
RESAMPLES = 9999

Scores = Mapping[str, Mapping[str, FloatArray]]
"""By metric, then by variant: (S, N) figures in [0, 1]; a row of NaN is a run that is missing."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval, what that generalises over, and what varies in it."""

    value: float
    low: float | None
    high: float | None
    """None where one seed met one problem, and where nothing varies over seeds of one problem."""
    over: str
    """`seeds and problems`; `problems`, with one seed or where nothing varies
    (`crossed.near_bound`); `seeds`, with one problem; `nothing`."""
    seeds: int
    problems: int
    seed_sd: float | None
    """Standard deviation over seeds without that of problems and samples; None if unknown. It is
    cut at 0, which says that they do not differ significantly, not that they do not differ."""
    problem_sd: float | None
    """The same over problems."""
    means_sd: float | None
    """Standard deviation of the seeds' own means, that of samples in it; None with one seed."""


@dataclass(frozen=True)
class PairedDifference(Estimate):
    """A paired difference with its two-sided tests."""

    p: float | None
    """Over what the interval is over; None where all differences are equal."""
    p_swap: float
    """The exact permutation test: the two runs of each seed swap labels (with one seed, the two
    values of each problem). It assumes nothing of how runs vary, but sees whole runs alone."""
    p_swap_least: float
    """The least `p_swap` of so many seeds: 2^(1-S), which is 0.0625 of 5."""
    detectable: float | None
    """The true difference that 4 of 5 comparisons of this size and variation would find at 5 %,
    before any correction. None with one seed, where nothing varies, and where it is above 1: no
    such difference is possible."""
    p_holm: float | None = None
    """`p` after Holm's correction over its family."""

    @property
    def differs(self) -> bool:
        """Whether it is significant at 5 % for other seeds too, after any correction."""
        p = self.p if self.p_holm is None else self.p_holm
        return self.seeds > 1 and p is not None and p <= LEVEL


def scores_of(correct: Mapping[str, IntArray], n: int, ks: Sequence[int]) -> Scores:
    """pass@k of each cell from counts of correct samples of n, (S, N) a variant.

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
    """The mean of (S, N) values in [0, 1] with its interval, cut to [0, 1], and at least
    `near_bound` where that applies; rows of NaN are left out. ValueError where no run is left."""
    cells = _runs(values)
    return _estimate(cells, infer(cells), 0.0)


def difference(values: FloatArray, baseline: FloatArray) -> PairedDifference:
    """The mean of `values` - `baseline`, (S, N) each of the same seeds and problems, or of two such
    differences; cells in [-1, 1]. Seeds that miss either run are left out; ValueError if all do."""
    cells = _runs(np.round(values - baseline, 12))  # equal values compare equal
    inference = infer(cells)
    p = inference.p
    if p is not None and near_bound(cells, -1.0):
        p = max(p, p_near_bound(cells, -1.0))
    units = cells.mean(axis=1) if len(cells) > 1 else cells[0]
    is_exact = 2 ** len(units) <= RESAMPLES
    size = inference.detectable
    return PairedDifference(
        **asdict(_estimate(cells, inference, -1.0)),
        p=p,
        p_swap=_swapped(units),
        p_swap_least=2.0 ** (1 - len(units)) if is_exact else 2 / (RESAMPLES + 1),
        detectable=size if len(cells) > 1 and size is not None and size <= 1 else None,
    )


def over_seeds(values: FloatArray, least: float = -np.inf, most: float = np.inf) -> Span:
    """The mean of (S,) figures in [`least`, `most`], one of each run, with its 95 % interval over
    seeds (Student's t); without one where one value, or equal ones, show no variation."""
    inference = infer(np.asarray(values, dtype=np.float64)[:, None])
    mean, half = inference.mean, inference.half
    if half is None:
        return Span(mean, None, None)
    return Span(mean, max(mean - half, least), min(mean + half, most))


def paired(values: FloatArray, baseline: FloatArray) -> bool:
    """Whether two (S, N) tables have a seed that neither misses: `difference` is defined."""
    return values.shape == baseline.shape and bool((~np.isnan(values + baseline).any(axis=1)).any())


def differences(
    scores: Scores, rivals: str | Mapping[str, str]
) -> dict[str, dict[str, PairedDifference]]:
    """By metric and variant: its difference from its rival, all of them one family of Holm's. A
    variant that shares no seed with its rival is left out. One rival is that of all variants, but
    of the model before training."""
    if isinstance(rivals, str):
        labels = next(iter(scores.values()))
        rivals = {each: rivals for each in labels if each not in (rivals, BEFORE)}
    family = {
        (metric, variant): difference(by_variant[variant], by_variant[rival])
        for metric, by_variant in scores.items()
        for variant, rival in rivals.items()
        if paired(by_variant[variant], by_variant[rival])
    }
    family = dict(zip(family, corrected(list(family.values())), strict=True))
    return {metric: {v: family[m, v] for m, v in family if m == metric} for metric in scores}


def corrected(family: Sequence[PairedDifference]) -> list[PairedDifference]:
    """The same differences with `p_holm` over the family; those without a p stay out of it."""
    adjusted = iter(holm([each.p for each in family if each.p is not None]))
    return [replace(each, p_holm=None if each.p is None else next(adjusted)) for each in family]


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p (Holm 1979): the i-th smallest of m times m - i + 1, never less
    than a smaller one's, at most 1."""
    order = np.argsort(ps, kind="stable")
    scaled = np.asarray(ps, dtype=np.float64)[order] * np.arange(len(ps), 0, -1)
    adjusted = np.empty(len(ps))
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted.tolist()


def _runs(values: FloatArray) -> FloatArray:
    cells = values[~np.isnan(values).any(axis=1)]
    if cells.size == 0:
        raise ValueError("no run of any seed is left to judge")
    return cells


def _swapped(units: FloatArray) -> float:
    """p of the mean of (n,) differences among those with any of their signs changed."""
    if len(units) < 2:
        return 1.0

    def mean(values: FloatArray, axis: int) -> Any:
        return cast(Any, np.round(values.mean(axis=axis), 12))  # ties are ties

    test = cast(Any, stats).permutation_test(
        (units,),
        mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        rng=np.random.default_rng(0),
    )
    return min(float(test.pvalue), 1.0)


def _estimate(cells: FloatArray, inference: Inference, floor: float) -> Estimate:
    S, N = cells.shape
    mean, half = inference.mean, inference.half
    ends = None if half is None else (max(floor, mean - half), min(1.0, mean + half))
    over = " and ".join(["seeds"] * (S > 1) + ["problems"] * (N > 1))
    if bounds := near_bound(cells, floor):
        if ends is None:
            ends, over = bounds, "problems" if N > 1 else "seeds"
        ends = min(ends[0], bounds[0]), max(ends[1], bounds[1])
    return Estimate(
        value=mean,
        low=ends and ends[0],
        high=ends and ends[1],
        over=over if ends else "nothing",
        seeds=S,
        problems=N,
        seed_sd=inference.seed_sd,
        problem_sd=inference.problem_sd,
        means_sd=float(cells.mean(axis=1).std(ddof=1)) if S > 1 else None,
    )

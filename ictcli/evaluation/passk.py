"""Unbiased pass@k, its interval over problems, and paired differences."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ictcli.tables import Span
from ictcli.types import FloatArray, IntArray

LEVEL = 0.05
"""The rate at which an interval misses the true value."""


@dataclass(frozen=True)
class Interval(Span):
    """An estimate with its 95 % interval."""

    low: float
    high: float


def pass_at_k(n: int, correct: IntArray, k: int) -> FloatArray:
    """Estimate pass@k per problem without bias: 1 - C(n - c, k) / C(n, k), c of n samples correct.

    Chen et al. 2021 (arXiv 2107.03374, Eq. 1), as the product of 1 - k / i over i = n-c+1..n,
    which needs no large binomials. Raises ValueError unless 1 <= k <= n and 0 <= c <= n."""
    c = np.asarray(correct)
    if not 1 <= k <= n or (c < 0).any() or (c > n).any():
        raise ValueError(f"pass@{k} needs 1 <= k <= n and 0 <= c <= n = {n}")
    i = np.arange(1, n + 1)
    factors = np.where(i[None, :] > (n - c)[:, None], 1.0 - k / i[None, :], 1.0)
    return 1.0 - np.where((n - c) < k, 0.0, factors.prod(axis=1))


def bounds_of_mean(
    values: FloatArray,
    least: float = 0.0,
    most: float = 1.0,
    level: float = LEVEL,
    sizes: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper ends (...) of an interval for the mean of values (..., N) in
    [`least`, `most`], one per problem, over all problems of the same kind. The interval misses that
    mean at the rate `level`. With `sizes` (N,) it is the mean weighted by them.

    The lower end is a quantile of a Beta distribution with the mean and the variance of the
    Bayesian bootstrap (Rubin 1981) of the values and one more problem at `least`; the upper end is
    the same with `most`. For values of 0 and 1 this is Clopper and Pearson's interval (1934), for
    others an approximation of Gaffke's (2005). With the added problem the width is never 0.
    `bench/coverage.py` measures the coverage."""
    from scipy import special  # pyright: ignore[reportMissingTypeStubs]

    shares = (np.asarray(values, dtype=np.float64) - least) / (most - least)
    weights = np.append(np.ones(shares.shape[-1]) if sizes is None else sizes / np.mean(sizes), 1.0)

    def end(extreme: float, tail: float) -> FloatArray:
        pad = np.full((*shares.shape[:-1], 1), extreme)
        smoothed = np.concatenate([shares, pad], axis=-1)
        mean = np.asarray((weights * smoothed).sum(axis=-1) / weights.sum())
        squares = np.square(weights * (smoothed - mean[..., None]))
        variance = np.asarray(squares.mean(axis=-1)) / (smoothed.shape[-1] + 1)
        certain = np.abs(mean - extreme) < 1e-12  # every value is the extreme
        size = mean * (1 - mean) / np.where(certain, 1.0, variance) - 1
        a, b = (np.where(certain, 1.0, part * size) for part in (mean, 1 - mean))
        quantile = cast(Any, special).betaincinv(a, b, tail)
        return least + (most - least) * np.where(certain, extreme, quantile)

    return end(0.0, level / 2), end(1.0, 1 - level / 2)


def mean_interval(values: FloatArray, least: float = 0.0, most: float = 1.0) -> Interval:
    """Return the mean of values (N,), one per problem, with the interval of `bounds_of_mean`."""
    low, high = bounds_of_mean(values, least, most)
    return Interval(float(np.mean(values)), float(low), float(high))


def ratio_interval(parts: FloatArray, wholes: FloatArray) -> Interval:
    """Return sum(parts) / sum(wholes) with the interval of `bounds_of_mean`. Both are (N,), a pair
    per problem with part <= whole; a whole of 0 does not count. Too narrow if few wholes are most
    of the sum."""
    some = wholes > 0
    low, high = bounds_of_mean(parts[some] / wholes[some], sizes=wholes[some])
    return Interval(float(np.sum(parts) / np.sum(wholes)), float(low), float(high))


@dataclass(frozen=True)
class Difference(Interval):
    """A paired difference with its 95 % interval."""

    differs: bool
    """Whether the interval excludes 0."""


def paired(values: FloatArray, first: FloatArray) -> Difference:
    """Return the mean of `values` - `first`, both (N,) on the same problems, with its interval."""
    mean = mean_interval(np.asarray(values) - np.asarray(first), -1.0, 1.0)
    return Difference(mean.value, mean.low, mean.high, not mean.low <= 0 <= mean.high)

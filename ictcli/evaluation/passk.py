"""pass@k, unbiased, its interval by bootstrap over problems, and paired differences."""

from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np

from ictcli.seeds import generator
from ictcli.types import FloatArray, IntArray

RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float

    def json(self) -> dict[str, Any]:
        return asdict(self)


def pass_at_k(n: int, correct: IntArray, k: int) -> FloatArray:
    """Unbiased estimate of pass@k per problem: 1 - C(n - c, k) / C(n, k), c of n samples correct.

    Chen et al. 2021 (arXiv 2107.03374, Eq. 1), as the product of 1 - k / i over i = n-c+1..n,
    which needs no large binomials. Raises ValueError unless 1 <= k <= n and 0 <= c <= n.
    """
    c = np.asarray(correct)
    if not 1 <= k <= n or (c < 0).any() or (c > n).any():
        raise ValueError(f"pass@{k} needs 1 <= k <= n and 0 <= c <= n = {n}")
    i = np.arange(1, n + 1)
    factors = np.where(i[None, :] > (n - c)[:, None], 1.0 - k / i[None, :], 1.0)
    return 1.0 - np.where((n - c) < k, 0.0, factors.prod(axis=1))


def bootstrap_mean(values: FloatArray, seed: int = 0) -> Interval:
    """The mean of (N,) values, one per problem, with its 95 % percentile bootstrap interval."""
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    mean = float(np.mean(values))
    if len(values) < 2 or np.ptp(values) == 0:
        return Interval(mean, mean, mean)
    result = cast(Any, stats).bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=generator(seed, "bootstrap"),
    )
    bounds = result.confidence_interval
    return Interval(mean, float(bounds.low), float(bounds.high))


@dataclass(frozen=True)
class Difference(Interval):
    """A paired difference with its 95 % interval."""

    differs: bool
    """Whether the interval excludes 0; False for a single problem, which has no interval."""


def paired(values: FloatArray, first: FloatArray, seed: int = 0) -> Difference:
    """The mean of `values` - `first`, (N,) each over the same problems, with its 95 % percentile
    interval by bootstrap over problems."""
    mean = bootstrap_mean(np.asarray(values) - np.asarray(first), seed)
    differs = len(values) > 1 and not mean.low <= 0 <= mean.high
    return Difference(mean.value, mean.low, mean.high, differs)

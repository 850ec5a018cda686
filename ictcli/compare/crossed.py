"""The mean of scores of S seeds on N problems, with its interval, p and detectable difference.

`values` (S, N) hold one score per seed and problem. Every seed is evaluated on the same problems,
so seeds and problems are crossed random effects:

    values[s, i] = mean + seed[s] + problem[i] + residual[s, i]

A claim must hold for other seeds and other problems, so all three variances count. A nested
bootstrap, which draws new problems for each seed, gives intervals that are too narrow.

The interval and p are those of a fiducial generalised pivot (Weerahandi 1993; Hannig, Iyer and
Patterson 2006). With mean squares A over seeds, B over problems and E of the residuals, and
independent chi-square variables of their degrees of freedom, the true mean is distributed as

    mean + Z sqrt(V / (S N)),  V = e + max(a - e, 0) + max(b - e, 0),  e = E df_E / chi2_E, ...

integrated over Z and the chi-squares by quadrature, so the result is deterministic. With one
problem or one seed this is Student's t. The effects are assumed to be about normally distributed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any, cast

import numpy as np
from scipy import optimize, special, stats  # pyright: ignore[reportMissingTypeStubs]

from ictcli.evaluation.passk import LEVEL, bounds_of_mean
from ictcli.types import FloatArray

Ends = tuple[float, float]

SCARCE = 20
"""`near_bound` applies if fewer problems than this differ from the most common score."""
FAR = 1000
"""No difference counts as detectable if the interval's half width exceeds this many standard
errors: scipy's noncentral t does not converge there."""
POWER = 0.8

_optimize, _special, _stats = cast(Any, optimize), cast(Any, special), cast(Any, stats)


@dataclass(frozen=True)
class Inference:
    """The mean of crossed values, with its interval and p. Interval and p are None if there is only
    one value or all values are equal (see `near_bound`)."""

    mean: float
    tail: Callable[[float], float] | None = None
    """Function of a distance d: P(|mean - true mean| >= d). None if the values do not vary."""
    error: float = 0.0
    """Standard error of the mean, with `df` degrees of freedom (Satterthwaite)."""
    df: float = np.inf

    @property
    def p(self) -> float | None:
        """Return the two-sided p of the null hypothesis that the true mean is 0."""
        return None if self.tail is None else self.tail(abs(self.mean))

    def half(self, level: float = LEVEL) -> float | None:
        """Return half the width of the interval that misses the true mean at rate `level`."""
        tail = self.tail
        if tail is None:
            return None
        return _root(lambda distance: level - tail(distance), 4 * self.error, rtol=1e-6)

    def detectable(self, level: float = LEVEL) -> float | None:
        """Return the smallest true mean that is found significant with probability POWER in data as
        variable as these, by the noncentral t. This size is only as certain as the estimated
        variances. None if the values do not vary, or if the half width exceeds FAR standard
        errors."""
        half = self.half(level)
        if half is None or half > FAR * self.error:
            return None
        ratio, df = half / self.error, min(self.df, 1e6)

        def excess_power(mean: float) -> float:
            return float(_stats.nct.sf(ratio, df, mean)) - POWER

        return _root(excess_power, 4 + 2 * ratio) * self.error


def infer(values: FloatArray) -> Inference:
    """Return the mean of (S, N) finite values with its standard error and tail probabilities."""
    S, N = values.shape
    mean = float(values.mean())
    if values.size == 1 or np.ptp(values) == 0:
        return Inference(mean)
    if min(S, N) == 1:
        error, df = float(_stats.sem(values.ravel())), values.size - 1
        return Inference(mean, lambda d: float(2 * _stats.t.sf(d / error, df)), error, df)
    _, squares = mean_squares(values)
    A, B, E = (float(square) for square in squares)
    over_e = max(A - E, 0.0), max(B - E, 0.0)
    # Satterthwaite's degrees of freedom of E + max(A - E, 0) + max(B - E, 0)
    parts = A * (A > E), B * (B > E), E * (1 - (A > E) - (B > E))
    sizes = S - 1, N - 1, (S - 1) * (N - 1)
    df = sum(parts) ** 2 / sum(part**2 / size for part, size in zip(parts, sizes, strict=True))
    return Inference(
        mean,
        cache(partial(tail, squares=squares, S=S, N=N)),
        float(np.sqrt((E + sum(over_e)) / (S * N))),
        df,
    )


def near_bound(values: FloatArray, least: float, level: float = LEVEL) -> Ends | None:
    """Return the ends of an interval for the mean of (S, N) values in [`least`, 1] if fewer than
    SCARCE problems differ from the most common score, as near a ceiling; else None.

    Such values hardly vary, so the interval of `infer` may have no width. This interval is
    `evaluation.passk.bounds_of_mean` of each problem's mean over seeds: it assumes one more problem
    at either end, and ignores variation between seeds. None if there is only one problem."""
    means: FloatArray = np.asarray(values.mean(axis=0))
    _, counts = np.unique(np.round(means, 12), return_counts=True)
    if len(means) == 1 or len(means) - counts.max() >= SCARCE:
        return None
    low, high = bounds_of_mean(means, least, 1.0, level)
    return float(low), float(high)


def p_near_bound(values: FloatArray, least: float) -> float:
    """Return the p that belongs to `near_bound`: the smallest level at which it excludes 0."""
    excludes, holds = 1.0, 1e-12
    for _ in range(40):
        middle = float(np.sqrt(excludes * holds))
        low, high = near_bound(values, least, middle) or (least, 1.0)
        if low > 0 or high < 0:
            excludes = middle
        else:
            holds = middle
    return excludes


def mean_squares(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the means (...) of values (..., S, N), S and N > 1, and the mean squares (3, ...) of
    seeds, problems and residuals in a two-way analysis of variance without replication."""
    S, N = values.shape[-2:]
    mean = values.mean(axis=(-2, -1))
    seeds = values.mean(axis=-1) - mean[..., None]
    problems = values.mean(axis=-2) - mean[..., None]
    rest = values - seeds[..., None] - problems[..., None, :] - mean[..., None, None]
    A, B = N * (seeds**2).sum(axis=-1), S * (problems**2).sum(axis=-1)
    E = (rest**2).sum(axis=(-2, -1))
    return mean, np.stack([A / (S - 1), B / (N - 1), E / ((S - 1) * (N - 1))])


def tail(distance: float, squares: FloatArray, S: int, N: int) -> float:
    """Return P(|mean - true mean| >= |distance|), given the mean squares (3,)."""
    weights, factors = _nodes(S, N)
    a, b, e = squares[:, None] * factors
    sd = np.sqrt((e + np.maximum(a - e, 0) + np.maximum(b - e, 0)) / (S * N))
    return float(2 * weights @ _special.ndtr(-abs(distance) / np.maximum(sd, 1e-300)))


@lru_cache(maxsize=64)
def _nodes(S: int, N: int) -> tuple[FloatArray, FloatArray]:
    """Return weights (K,) and factors df / chi2 (3, K) of a quadrature over the three chi-squares,
    each a function of a normal z. Few degrees of freedom have heavy tails, and get more nodes."""

    def rule(df: int, many: int, few: int) -> tuple[FloatArray, FloatArray]:
        if df < 20:
            z = np.linspace(-8.0, 8.0, many)
            w = np.exp(-(z**2) / 2)
        else:
            z, w = np.polynomial.hermite_e.hermegauss(few)
        normal, chi2 = _stats.norm, _stats.chi2
        value = cast(
            FloatArray, np.where(z < 0, chi2.ppf(normal.cdf(z), df), chi2.isf(normal.sf(z), df))
        )
        return w / w.sum(), df / value

    rules = rule(S - 1, 129, 15), rule(N - 1, 65, 11), rule((S - 1) * (N - 1), 33, 5)
    grids = [np.meshgrid(*column, indexing="ij") for column in zip(*rules, strict=True)]
    weights = np.prod(grids[0], axis=0).ravel()
    likely = weights > 1e-15
    return weights[likely], np.stack([grid.ravel() for grid in grids[1]])[:, likely]


def _root(rising: Callable[[float], float], end: float, **tolerance: float) -> float:
    """Return the positive zero of a rising function; `end` is a first guess above it."""
    while rising(end) < 0:
        end *= 2
    return float(_optimize.brentq(rising, 0.0, end, **tolerance))

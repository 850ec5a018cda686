"""The mean of crossed data, seeds by problems: interval, p and detectable difference.

`values` (S, N) hold one figure a run and problem. Every seed meets the same problems, so seeds and
problems are CROSSED:

    values[s, i] = mean + seed[s] + problem[i] + rest[s, i]

Nested resampling, which draws problems anew within each seed, would average their variation away
and give too narrow intervals. A claim must hold for other seeds AND other problems, so all three
variances count.

The interval and p are those of a fiducial generalised pivot (Weerahandi 1993; Hannig, Iyer and
Patterson 2006). With mean squares A over seeds, B over problems, E of the rest, each known up to a
chi-square of its degrees of freedom, the truth is

    mean + Z sqrt(V / (S N)),  V = e + max(a - e, 0) + max(b - e, 0),  e = E df_E / chi2_E, ...

integrated over Z and the chi-squares by quadrature, so the numbers are the same every time. With
one problem or one seed it is Student's t. All of it takes runs to vary about normally.
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
"""Problems that differ from the rest, below which `infer` is not trusted alone. Ours."""
FAR = 1000
"""Half widths, in errors of the mean, that nothing is detectable at: scipy's noncentral t does not
converge so far out."""
POWER = 0.8

_optimize, _special, _stats = cast(Any, optimize), cast(Any, special), cast(Any, stats)


@dataclass(frozen=True)
class Inference:
    """The mean of crossed values with its interval and p. One value, or values that are all equal,
    show no variation (see `near_bound`): they have no `tail`, and nothing that rests on it."""

    mean: float
    tail: Callable[[float], float] | None = None
    """Gives P(|mean - truth| >= a distance)."""
    error: float = 0.0
    """The standard error, of `df` degrees of freedom (Satterthwaite's)."""
    df: float = np.inf

    @property
    def p(self) -> float | None:
        """Two-sided, against a mean of 0."""
        return None if self.tail is None else self.tail(abs(self.mean))

    def half(self, level: float = LEVEL) -> float | None:
        """Return half the width of the interval: the distance with a tail of `level`."""
        tail = self.tail
        if tail is None:
            return None
        return _root(lambda distance: level - tail(distance), 4 * self.error, rtol=1e-6)

    def detectable(self, level: float = LEVEL) -> float | None:
        """Return the true mean that POWER of data as variable as this would call other than 0: it
        has a noncentral t that exceeds the half width with that probability. It is as uncertain as
        the variances: with 5 seeds its error has 4 degrees of freedom. None where the half width is
        FAR, as at an early look."""
        half = self.half(level)
        if half is None or half > FAR * self.error:
            return None
        ratio, df = half / self.error, min(self.df, 1e6)

        def over(mean: float) -> float:
            return float(_stats.nct.sf(ratio, df, mean)) - POWER

        return _root(over, 4 + 2 * ratio) * self.error


def infer(values: FloatArray) -> Inference:
    """Return the mean of (S, N) finite values with what is known of it."""
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
    """Return ends of the interval over problems of the mean of (S, N) values in [`least`, 1], if
    fewer than SCARCE problems differ from the rest, as near a ceiling; else None.

    There `infer` sees hardly any variation, and its interval may have no width. This one
    (`evaluation.passk.bounds_of_mean`, of the problems' means over seeds) assumes one more problem
    at either end. It does not see how seeds vary. One problem alone has none."""
    means: FloatArray = np.asarray(values.mean(axis=0))
    _, counts = np.unique(np.round(means, 12), return_counts=True)
    if len(means) == 1 or len(means) - counts.max() >= SCARCE:
        return None
    low, high = bounds_of_mean(means, least, 1.0, level)
    return float(low), float(high)


def p_near_bound(values: FloatArray, least: float) -> float:
    """Return the least level at which `near_bound` of values that have one leaves 0 out."""
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
    """Return (...) means of values (..., S, N), S and N > 1, and (3, ...) mean squares of the
    two-way analysis of variance without replication: over seeds, over problems, of the rest."""
    S, N = values.shape[-2:]
    mean = values.mean(axis=(-2, -1))
    seeds = values.mean(axis=-1) - mean[..., None]
    problems = values.mean(axis=-2) - mean[..., None]
    rest = values - seeds[..., None] - problems[..., None, :] - mean[..., None, None]
    A, B = N * (seeds**2).sum(axis=-1), S * (problems**2).sum(axis=-1)
    E = (rest**2).sum(axis=(-2, -1))
    return mean, np.stack([A / (S - 1), B / (N - 1), E / ((S - 1) * (N - 1))])


def tail(distance: float, squares: FloatArray, S: int, N: int) -> float:
    """Return P(|mean - truth| >= |distance|), by (3,) mean squares."""
    weights, factors = _nodes(S, N)
    a, b, e = squares[:, None] * factors
    sd = np.sqrt((e + np.maximum(a - e, 0) + np.maximum(b - e, 0)) / (S * N))
    return float(2 * weights @ _special.ndtr(-abs(distance) / np.maximum(sd, 1e-300)))


@lru_cache(maxsize=64)
def _nodes(S: int, N: int) -> tuple[FloatArray, FloatArray]:
    """Return (K,) weights and (3, K) factors df / chi2 of a quadrature over the three chi-squares,
    each chi2 a function of a normal z. Few degrees of freedom have heavy tails, and more nodes."""

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
    """Return where a rising function is 0, above 0 and usually below `end`."""
    while rising(end) < 0:
        end *= 2
    return float(_optimize.brentq(rising, 0.0, end, **tolerance))

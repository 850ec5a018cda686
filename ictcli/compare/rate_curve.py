"""How a method responds to a setting, from a few noisy runs of a few values: draws of the curve.

The curve is a Gaussian process over the logarithm of the setting (Rasmussen and Williams 2006):
near values have like results, and where nothing was run it says so. Its scale, the size of the
chance of a run and how far a value speaks for its neighbours are not chosen but averaged over, each
as likely as the runs make it (SCALES, CHANCES, REACHES). A fitted quadratic is worse twice over: it
bends to a run that crashed, and does not know how little it knows.

The first runs of all values share their seed, and the base model if seeds start from several; so do
the second ones. What that makes of them has a level of its own, and the curve is at the mean of the
levels: else a good base model would count as the luck of runs, or as a good value where no run
followed the first.
"""

from collections.abc import Sequence
from itertools import product, zip_longest
from typing import Any, cast

import numpy as np

from ictcli.types import FloatArray

SCALES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Standard deviations of the curve, of shares."""
CHANCES = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""Of runs of one value."""
REACHES = (0.0, 1.0, 2.0, 4.0)
"""How far a value speaks for others, in steps of the grid; 0: not at all."""
LEVEL_SD = 0.5
"""Of what the runs of one number share."""
DRAWS = 20_000

Runs = Sequence[Sequence[float]]
"""Those of each of K values, in their order; nan: one that failed."""
Places = Sequence[float] | None
"""The values on a scale of steps of the grid; None: they have no order."""


def mean_of(places: Places, runs: Runs) -> FloatArray:
    """(K,) the mean of the curves, as likely as the runs make them."""
    weights, means, _ = _curves_by_guess(places, runs)
    return weights @ means


def draws_of(places: Places, runs: Runs) -> FloatArray:
    """(DRAWS, K) curves, as likely as the runs make them; the same ones on any machine, but for
    rounding."""
    weights, means, covariances = _curves_by_guess(places, runs)
    rng = np.random.default_rng(0)
    chosen, normals = rng.random(DRAWS), rng.normal(size=(DRAWS, len(runs)))
    which = np.searchsorted(np.cumsum(weights), chosen)
    values, vectors = cast(Any, np.linalg).eigh(covariances)
    # a matrix has one root like this: the vectors' signs, which libraries choose, fall out
    spread = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ vectors.mT
    return means[which] + (spread[which] * normals[:, None, :]).sum(axis=-1)


def _curves_by_guess(places: Places, runs: Runs) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of each guess at scale, chance and reach: its weight (guesses,), and the curve's mean
    (guesses, K) and covariance (guesses, K, K)."""
    table = np.array(list(zip_longest(*runs, fillvalue=np.nan)), dtype=np.float64)
    number, at = np.nonzero(np.isfinite(table))
    y = table[number, at]
    centre, y = y.mean(), y - y.mean()
    x = np.arange(len(runs), dtype=np.float64) if places is None else np.asarray(places)
    apart = np.abs(x[:, None] - x[None, :])
    guesses = product(REACHES[: None if places else 1], SCALES, CHANCES)
    reach, scale, chance = (np.array(each)[:, None, None] for each in zip(*guesses, strict=True))
    shape = np.exp(-0.5 * (apart / np.maximum(reach, 1e-9)) ** 2)  # (guesses, K, K)
    bent = scale**2 * shape
    prior = bent + LEVEL_SD**2 / len(set(number.tolist()))
    shared = LEVEL_SD**2 * (number[:, None] == number)
    noisy: FloatArray = bent[:, at[:, None], at] + shared + chance**2 * np.eye(len(y))
    root: FloatArray = np.linalg.cholesky(noisy)
    sides = np.concatenate([prior[:, at], np.broadcast_to(y[:, None], (len(prior), len(y), 1))], 2)
    solved: FloatArray = np.linalg.solve(root, sides)
    gain, residual = solved[..., :-1], solved[..., -1]
    evidence = -0.5 * (residual**2).sum(axis=-1)
    evidence -= np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)
    weights = np.exp(evidence - evidence.max())
    means = centre + (gain * residual[..., None]).sum(axis=1)
    return weights / weights.sum(), means, prior - gain.mT @ gain

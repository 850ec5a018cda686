"""Laws of gspo, cispo and rft: loss and gradient are those of the papers' equations."""

import math
from typing import Any

import numpy as np
import pytest
from drawn import loss_by_logp

from ictcli.algorithm.clipping import CispoOptions, GspoOptions
from ictcli.algorithm.methods import METHODS, Options, Scored
from ictcli.algorithm.objective import SEQUENCE, Objective, was_clipped
from ictcli.algorithm.weights import normalise
from ictcli.types import FloatArray

RNG = np.random.default_rng(12)
LENGTHS = np.array([7, 5, 2, 6, 1, 4])
VALID = np.arange(7)[None, :] < LENGTHS[:, None]
LOGP = np.where(VALID, -RNG.exponential(1.0, VALID.shape) - 0.1, 0)
OLD = np.where(VALID, LOGP + RNG.normal(0, 0.5, VALID.shape), 0)
A = np.array([1.0, -0.75, -0.5, 1.25, 0.5, -0.625])
GSPO, CISPO = GspoOptions(low=0.1, high=0.15), CispoOptions(low=0.3, high=0.4)


def ours(name: str, options: Any) -> tuple[float, FloatArray, Objective]:
    """The loss and its gradient (B, T) by log pi, from what the method chooses."""
    method, tokens = METHODS[name], np.zeros(VALID.shape, dtype=np.int32)
    rows = Scored({}, OLD, A, A > 0, VALID, tokens, [""] * 6, 3, np.random.default_rng(0))
    choice = method.rule(rows, options)
    assert choice.weight is None and choice.clip is not None
    kept, clip = choice.kept, choice.clip
    given = method.advantage(A, rows.correct, 3) if method.of_correct else A
    objective = Objective(clip.low, clip.high, clip_on=clip.on)
    arrays = {
        "advantage": np.broadcast_to(given[:, None], VALID.shape),
        "weights": normalise(kept, VALID, method.normalisation, 99).astype(np.float64),
        "old_logp": OLD,
    }
    if clip.on == "sequence":
        means = (LOGP - OLD).sum(axis=1) / LENGTHS
        arrays[SEQUENCE] = np.broadcast_to(means[:, None], VALID.shape)
    return *loss_by_logp(LOGP, VALID, arrays, objective), objective


def test_gspo_is_equation_5_of_its_paper() -> None:
    """s_i = (pi(y_i) / pi_old(y_i))^(1 / |y_i|), and the mean over responses of
    min(s_i A_i, clip(s_i) A_i)."""
    loss, gradient, _ = ours("gspo", GSPO)
    expected, by_logp, stopped = 0.0, np.zeros(VALID.shape), 0
    for i, n in enumerate(LENGTHS):
        s = (math.exp(LOGP[i, :n].sum()) / math.exp(OLD[i, :n].sum())) ** (1 / n)
        bounded = min(max(s, 1 - GSPO.low), 1 + GSPO.high)
        expected -= min(s * A[i], bounded * A[i]) / len(A)
        if s * A[i] <= bounded * A[i]:
            by_logp[i, :n] = -s * A[i] / n / len(A)
        else:
            stopped += 1
    assert 0 < stopped < len(A)
    assert loss == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(gradient, by_logp, rtol=1e-6, atol=1e-9)


def test_cispo_is_equation_4_of_its_paper() -> None:
    """The mean over tokens of sg(clip(r)) A log pi, so that every token keeps a gradient."""
    loss, gradient, objective = ours("cispo", CISPO)
    expected, by_logp = 0.0, np.zeros(VALID.shape)
    for i, t in np.argwhere(VALID):
        r = math.exp(LOGP[i, t] - OLD[i, t])
        weight = min(max(r, 1 - CISPO.low), 1 + CISPO.high)
        expected -= weight * A[i] * LOGP[i, t] / LENGTHS.sum()
        by_logp[i, t] = -weight * A[i] / LENGTHS.sum()
    assert loss == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(gradient, by_logp, rtol=1e-6)
    ratio = np.exp(LOGP - OLD)
    clipped = was_clipped(np, LOGP, OLD, A[:, None], objective)
    np.testing.assert_array_equal(clipped, (ratio > 1.4) | (ratio < 0.7))
    assert clipped[VALID].any() and not clipped[VALID].all()


def test_rft_is_the_mean_negative_log_likelihood_of_correct_responses() -> None:
    """-sum log pi over their tokens by the number of those, whatever pi_old and the group are."""
    loss, gradient, _ = ours("rft", Options())
    right = VALID & (A > 0)[:, None]
    assert loss == pytest.approx(-LOGP[right].sum() / right.sum(), rel=1e-6)
    np.testing.assert_allclose(gradient, np.where(right, -1 / right.sum(), 0), rtol=1e-6)

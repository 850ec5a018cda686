"""Laws of `update`: it is the plain dense step, whatever it saves itself; what else it reports, and
where it does nothing."""

import copy
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from ictcli.algorithm.objective import Objective, Term, distance_from_old, k3
from ictcli.engine.update import Update
from ictcli.recipe.tables import OptimizerSettings
from ictcli.types import FloatArray, Rollouts, UpdateReport

from .conftest import Make, made_up, oracle_of
from .dense import DenseTrainer, Formula
from .training import (
    LR,
    PLAIN,
    SMOOTH,
    advantages,
    alike,
    apart,
    logp_of,
    plain_update,
    sparse_weights,
    state,
    train,
    weights_of,
)

DECAYING = OptimizerSettings(eps=1e-3, clip_norm=0.05, weight_decay=0.1, beta1=0.8, beta2=0.95)


@cache
def begun(model: Path, settings: OptimizerSettings) -> DenseTrainer:
    """The plain trainer after the step with which `against_dense` begins. To be copied."""
    dense = DenseTrainer(model, settings, FORMULAS)
    dense.update(plain_update(made_up(group=4), 9), LR)
    return dense


def against_dense(
    make_engine: Make,
    model: Path,
    objective: Objective = PLAIN,
    *,
    weights: FloatArray | None = None,
    settings: OptimizerSettings = SMOOTH,
    steps: int = 1,
    **more: Any,
) -> None:
    """Run the engine and the plain trainer side by side, and compare all they report. They begin
    with a plain step: a policy that is its reference would hide the KL term, whatever it is."""
    rollouts = made_up(group=4)
    given = sparse_weights(rollouts) if weights is None else weights
    engine = make_engine(model, settings, micro_tokens=48)
    dense = copy.deepcopy(begun(model, cast(Any, settings)))
    engine.keep_reference()
    engine.update(plain_update(rollouts, 9), LR)
    before = dense.weights()
    for step in range(steps):
        update = Update(rollouts, given, advantages(rollouts, step), objective, **more)
        step_alike(engine, dense, update, LR / (1 + step))
    found = weights_of(engine)
    assert apart(found, before) > 1e-3
    assert apart(found, dense.weights()) < 2e-6


def step_alike(engine: Any, dense: DenseTrainer, update: Update, lr: float) -> UpdateReport:
    """Both step, and report the same, of the weighted places that add something to the loss."""
    report, plain = engine.update(update, lr), dense.update(update, lr)
    trained, objective = update.weights != 0, update.objective
    if not objective.kl and not objective.entropy:
        signal = np.broadcast_to((update.advantage != 0)[:, None], trained.shape)
        of_terms = [term.coefficient != 0 for term in update.terms]
        trained &= np.logical_or.reduce([signal, *of_terms])
    assert report.stepped and report.finite
    assert report.loss == pytest.approx(plain.loss, rel=1e-4, abs=1e-6)
    assert report.grad_norm == pytest.approx(plain.grad_norm, rel=1e-4)
    assert report.kl == pytest.approx(plain.k3[trained].mean(), rel=1e-3, abs=1e-7)
    wanted = np.where(trained, plain.logp, 0)
    np.testing.assert_allclose(report.logp, wanted, atol=2e-5, rtol=1e-5)
    return report


def off_policy(rollouts: Rollouts, model: Path) -> FloatArray:
    """(B, T) old log-probabilities off the present ones, none at a clip's edge or at ratio 1, where
    the gradient of |log pi - log pi_old| jumps."""
    steps = np.random.default_rng(4).choice(
        [-0.6, -0.3, -0.05, 0.05, 0.3, 0.6], rollouts.tokens.shape
    )
    logp = oracle_of(model).logp(rollouts, 1.0)
    return np.where(rollouts.valid, logp + steps, 0).astype(np.float32)


ON, OFF = False, True
LOSSES = {
    "moments, decay, norm clipped": (PLAIN, DECAYING, ON),
    "kl, entropy, T": (Objective(kl=0.1, entropy=0.05, temperature=0.7), SMOOTH, ON),
    "at the clip's edge": (Objective(0.0, 0.0), SMOOTH, ON),
    "ratio": (Objective(0.1, 0.5), SMOOTH, OFF),
    "tv": (Objective(0.01, 0.02, clip_on="tv"), SMOOTH, OFF),
    "sequence": (Objective(0.05, 0.08, 0.2, temperature=0.7, clip_on="sequence"), SMOOTH, OFF),
    "weight": (Objective(0.2, 0.5, clip_on="weight"), SMOOTH, OFF),
}


@pytest.mark.parametrize(("objective", "settings", "off"), LOSSES.values(), ids=LOSSES)
def test_an_update_is_the_plain_step(
    make_engine: Make, tiny_model: Path, objective: Objective, settings: Any, off: bool
) -> None:
    """Two of them, or one off policy, clipped against older log-probabilities."""
    old = off_policy(made_up(group=4), tiny_model) if off else None
    how: Any = {"settings": settings, "steps": 1 if off else 2, "old_logp": old}
    against_dense(make_engine, tiny_model, objective, **how)


def test_negative_weights_turn_the_advantage_and_the_side_that_is_clipped(
    make_engine: Make, tiny_model: Path
) -> None:
    """Of any size; the KL term counts by |w|."""
    rollouts = made_up(group=4)
    factor = np.random.default_rng(8).uniform(-2, 2, rollouts.tokens.shape).astype(np.float32)
    weights, old = sparse_weights(rollouts) * factor, off_policy(rollouts, tiny_model)
    objective = Objective(0.1, 0.5, kl=0.2)
    against_dense(make_engine, tiny_model, objective, weights=weights, old_logp=old)


def pull_up(xp: Any, logp: Any, old_logp: Any, target: Any) -> Any:
    return xp.where(logp < target, k3(xp, logp, target), 0.0)


FORMULAS: dict[Any, Formula] = {
    distance_from_old: lambda logp, old, target: (logp - old).abs(),
    pull_up: lambda logp, old, target: (
        ((target - logp).exp() - (target - logp) - 1) * (target > logp)
    ),
}


def test_every_term_that_a_method_asks_for(make_engine: Make, tiny_model: Path) -> None:
    """Each at tokens of its own, on rows without advantage too."""
    rollouts, old = made_up(group=4), off_policy(made_up(group=4), tiny_model)
    chance = np.random.default_rng(6).random((len(FORMULAS), *rollouts.tokens.shape))
    terms = tuple(
        Term(formula, np.where(rollouts.valid & (drawn < 0.3), 0.8, 0.0), target=old + 0.15)
        for formula, drawn in zip(FORMULAS, chance, strict=True)
    )
    against_dense(make_engine, tiny_model, old_logp=old, terms=terms)


def test_the_reference_stays_what_it_was(make_engine: Make) -> None:
    """Beside masters; in float32 the KL of the dense step is to it."""
    engine, rollouts = make_engine(optimizer=SMOOTH, dtype="bfloat16"), made_up(group=4)
    engine.keep_reference()
    before = logp_of(engine, rollouts)
    train(engine, rollouts, 2)
    np.testing.assert_array_equal(logp_of(engine, rollouts, reference=True), before)
    assert np.abs(logp_of(engine, rollouts) - before).max() > 1e-2


def test_without_any_signal_nothing_moves(make_engine: Make) -> None:
    """Weight decay included; and without weights the same."""
    settings = OptimizerSettings(weight_decay=0.1)
    engine, rollouts = make_engine(optimizer=settings), made_up(group=4)
    train(engine, rollouts, 1)
    before = state(engine)
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    for given, advantage in [(weights, np.zeros_like(A)), (np.zeros_like(weights), A)]:
        report = engine.update(Update(rollouts, given, advantage, PLAIN), LR)
        assert (report.stepped, report.finite, report.tokens) == (False, True, 0)
        assert (report.logp == 0).all()
    assert state(engine) == before


def test_clip_fraction_counts_trained_tokens_clipped_away(make_engine: Make) -> None:
    engine, rollouts = make_engine(), made_up(group=4)
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    shift = np.random.default_rng(2).choice([-0.5, -0.25, 0.0, 0.15, 0.3], weights.shape)
    old = (logp_of(engine, rollouts) - shift).astype(np.float32)
    report = engine.update(Update(rollouts, weights, A, Objective(0.25, 0.2), old_logp=old), LR)
    trained = (weights != 0) & (A != 0)[:, None]
    up, down = np.exp(shift) > 1.2, np.exp(shift) < 0.75
    clipped = np.where(A[:, None] > 0, up, down)[trained]
    assert 0 < clipped.mean() < 1
    assert report.clip_fraction == pytest.approx(clipped.mean())
    assert report.ratio_gap == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("what", ["losses of both infinities", "weight"])
def test_what_is_not_finite_leaves_everything_as_it_was(
    make_engine: Make, what: str, device: str
) -> None:
    """In micro-batches, whose losses are added up."""
    engine, rollouts = make_engine(micro_tokens=30), made_up(group=4)
    train(engine, rollouts, 1)
    before = state(engine)
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    rows = np.flatnonzero(weights.any(axis=1) & (A != 0))
    if what == "weight":
        weights[rows[0], np.flatnonzero(weights[rows[0]])[0]] = np.nan
    else:
        A[rows[0]], A[rows[-1]] = np.inf, -np.inf
    report = engine.update(Update(rollouts, weights, A, PLAIN), LR)
    assert not report.finite
    assert not report.stepped
    assert state(engine) == before
    again = make_engine(micro_tokens=30)
    train(again, rollouts, 2)
    train(engine, rollouts, 1, first=1)
    assert alike(state(engine), state(again), device)


def test_small_steps_add_up_in_bfloat16(make_engine: Make) -> None:
    """Each step is far below the spacing of bfloat16 numbers around a weight of 0.3: rounded away
    every time, it would train nothing. Many together move the model as they do in float32, also
    where gradients of micro-batches are added up."""
    rollouts, update = made_up(group=4), plain_update(made_up(group=4))
    trained = (update.weights != 0) & (update.advantage != 0)[:, None]
    gained, norms = list[float](), list[float]()
    for dtype, tokens in (("float32", 8192), ("bfloat16", 64)):
        engine = make_engine(dtype=dtype, micro_tokens=tokens)
        before = logp_of(engine, rollouts)
        reports = [engine.update(update, 2.5e-4) for _ in range(8)]
        assert all(report.stepped for report in reports)
        gain = (logp_of(engine, rollouts) - before) * update.advantage[:, None]
        gained.append(float(gain[trained].mean()))
        norms.append(reports[0].grad_norm)
    assert gained[0] > 0.1
    assert gained[1] == pytest.approx(gained[0], rel=0.2)
    assert norms[1] == pytest.approx(norms[0], rel=0.05)

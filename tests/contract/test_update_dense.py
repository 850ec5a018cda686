"""Laws of `update`: it is the plain dense step, whatever it saves itself."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.algorithm.objective import TERMS, Objective, Term
from ictcli.engine.update import Update
from ictcli.errors import UserError
from ictcli.recipe.tables import OptimizerSettings
from ictcli.types import FloatArray, Rollouts

from .conftest import MakeEngine, made_up, oracle_of
from .dense import DenseTrainer, Formula
from .training import LR, PLAIN, SMOOTH, advantages, apart, sparse_weights, weights_of

DECAYING = OptimizerSettings(eps=1e-3, clip_norm=0.05, weight_decay=0.1, beta1=0.8, beta2=0.95)


def against_dense(
    make_engine: MakeEngine,
    model: Path,
    folder: Path,
    objective: Objective = PLAIN,
    *,
    weights: FloatArray | None = None,
    settings: OptimizerSettings = SMOOTH,
    steps: int = 1,
    **more: Any,
) -> None:
    """Run the engine and the plain trainer side by side, and compare all they report. They begin
    with a plain step: a policy that is its reference would hide the KL term, whatever it is."""
    rollouts = made_up()
    given = sparse_weights(rollouts) if weights is None else weights
    engine = make_engine(model, settings, micro_tokens=48)
    dense = DenseTrainer(model, settings, FORMULAS)
    engine.keep_reference()
    for trainer in (engine, dense):
        trainer.update(
            Update(rollouts, sparse_weights(rollouts), advantages(rollouts, 9), PLAIN), LR
        )
    before = dense.weights()
    for step in range(steps):
        A, lr = advantages(rollouts, step), LR / (1 + step)
        report = engine.update(Update(rollouts, given, A, objective, **more), lr)
        plain = dense.update(Update(rollouts, given, A, objective, **more), lr)
        trained = evaluated(given, A, objective, *more.get("terms", {}).values())
        assert report.stepped
        assert report.finite
        assert report.loss == pytest.approx(plain.loss, rel=1e-4, abs=1e-6)
        assert report.grad_norm == pytest.approx(plain.grad_norm, rel=1e-4)
        assert report.kl == pytest.approx(plain.k3[trained].mean(), rel=1e-3, abs=1e-7)
        wanted = np.where(trained, plain.logp, 0)
        np.testing.assert_allclose(report.logp, wanted, atol=2e-5, rtol=1e-5)
    found = weights_of(engine, folder)
    assert apart(found, before) > 1e-3
    assert apart(found, dense.weights()) < 2e-6


def evaluated(
    weights: FloatArray, advantage: FloatArray, objective: Objective, *terms: Term
) -> np.ndarray:
    """(B, T): weighted places that add something to the loss."""
    signal = np.broadcast_to((advantage != 0)[:, None], weights.shape)
    if objective.kl or objective.entropy:
        return weights != 0
    return (weights != 0) & np.logical_or.reduce([signal, *(t.coefficient != 0 for t in terms)])


def test_moments_decay_and_norm_clipping_over_steps(
    make_engine: MakeEngine, tiny_model: Path, tmp_path: Path
) -> None:
    against_dense(make_engine, tiny_model, tmp_path, settings=DECAYING, steps=2)


@pytest.mark.parametrize(
    "objective",
    [Objective(kl=0.1, entropy=0.05, temperature=0.7), Objective(0.0, 0.0)],
    ids=["all", "at the clip's edge"],
)
def test_every_term_of_the_objective(
    make_engine: MakeEngine, tiny_model: Path, tmp_path: Path, objective: Objective
) -> None:
    against_dense(make_engine, tiny_model, tmp_path, objective, steps=2)


def off_policy(rollouts: Rollouts, model: Path) -> FloatArray:
    """(B, T) old log-probabilities off the present ones, none at a clip's edge or at ratio 1, where
    the gradient of |log pi - log pi_old| jumps."""
    steps = np.random.default_rng(4).choice(
        [-0.6, -0.3, -0.05, 0.05, 0.3, 0.6], rollouts.tokens.shape
    )
    logp = oracle_of(model).logp(rollouts, 1.0)
    return np.where(rollouts.valid, logp + steps, 0).astype(np.float32)


@pytest.mark.parametrize(
    "objective",
    [
        Objective(0.1, 0.5),
        Objective(0.01, 0.02, clip_on="tv"),
        Objective(0.05, 0.08, kl=0.2, temperature=0.7, clip_on="sequence"),
        Objective(0.2, 0.5, clip_on="weight"),
    ],
    ids=["0.1/0.5", "tv", "sequence,kl,T", "weight"],
)
def test_ratio_and_clip_against_old_logp(
    make_engine: MakeEngine, tiny_model: Path, tmp_path: Path, objective: Objective
) -> None:
    old = off_policy(made_up(), tiny_model)
    against_dense(make_engine, tiny_model, tmp_path, objective, old_logp=old)


def test_negative_weights_turn_the_advantage_and_the_side_that_is_clipped(
    make_engine: MakeEngine, tiny_model: Path, tmp_path: Path
) -> None:
    """Of any size; the KL term counts by |w|."""
    rollouts = made_up()
    factor = np.random.default_rng(8).uniform(-2, 2, rollouts.tokens.shape).astype(np.float32)
    weights, old = sparse_weights(rollouts) * factor, off_policy(rollouts, tiny_model)
    objective = Objective(0.1, 0.5, kl=0.2)
    against_dense(make_engine, tiny_model, tmp_path, objective, weights=weights, old_logp=old)


FORMULAS: dict[str, Formula] = {
    "kl_old": lambda logp, old, target: (logp - old).abs(),
    "proxy": lambda logp, old, target: (
        ((target - logp).exp() - (target - logp) - 1) * (target > logp)
    ),
}


def test_every_term_that_a_method_asks_for(
    make_engine: MakeEngine, tiny_model: Path, tmp_path: Path
) -> None:
    """Each at tokens of its own, on rows without advantage too."""
    rollouts, old = made_up(), off_policy(made_up(), tiny_model)
    chance = np.random.default_rng(6).random((len(TERMS), *rollouts.tokens.shape))
    terms = {
        name: Term(np.where(rollouts.valid & (each < 0.3), 0.8, 0.0), target=old + 0.15)
        for name, each in zip(TERMS, chance, strict=True)
    }
    against_dense(make_engine, tiny_model, tmp_path, old_logp=old, terms=terms)


def test_a_term_that_the_loss_has_not_is_refused() -> None:
    rollouts = made_up()
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    with pytest.raises(UserError, match=r"no term 'proxi' \(did you mean proxy\?\)"):
        Update(rollouts, weights, A, PLAIN, terms={"proxi": Term(weights)})

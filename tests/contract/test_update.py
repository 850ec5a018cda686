"""Laws of `update`: what it depends on, what it skips, and what it reports."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ictcli.algorithm.objective import Objective
from ictcli.engine import Engine
from ictcli.engine.update import Update
from ictcli.recipe.tables import OptimizerSettings
from ictcli.types import FloatArray, Rollouts

from .conftest import MakeEngine, made_up
from .training import (
    LR,
    PLAIN,
    SMOOTH,
    advantages,
    apart,
    logp_of,
    sparse_weights,
    state,
    train,
    weights_of,
)


@pytest.mark.parametrize("micro_tokens", [1, 60])
def test_micro_batches_change_nothing(
    make_engine: MakeEngine, model: Path, tmp_path: Path, micro_tokens: int
) -> None:
    rollouts = made_up()
    one, other = make_engine(model, SMOOTH), make_engine(model, SMOOTH, micro_tokens=micro_tokens)
    for whole, split in zip(train(one, rollouts, 2), train(other, rollouts, 2), strict=True):
        assert split.loss == pytest.approx(whole.loss, rel=1e-4, abs=1e-6)
        assert split.grad_norm == pytest.approx(whole.grad_norm, rel=1e-4)
    assert apart(weights_of(one, tmp_path / "1"), weights_of(other, tmp_path / "2")) < 1e-6


def test_right_padding_changes_nothing(
    make_engine: MakeEngine, tiny_model: Path, tmp_path: Path
) -> None:
    rollouts, columns = made_up(), ((0, 0), (0, 5))
    padded = replace(
        rollouts,
        tokens=np.pad(rollouts.tokens, columns),
        logp=np.pad(rollouts.logp, columns),
    )
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    one, other = make_engine(tiny_model, SMOOTH), make_engine(tiny_model, SMOOTH)
    first = one.update(Update(rollouts, weights, A, PLAIN), LR)
    second = other.update(Update(padded, np.pad(weights, columns), A, PLAIN), LR)
    np.testing.assert_array_equal(second.logp, np.pad(first.logp, columns))
    assert apart(weights_of(one, tmp_path / "1"), weights_of(other, tmp_path / "2")) < 1e-6


def test_only_weighted_places_matter(make_engine: MakeEngine, model: Path, tmp_path: Path) -> None:
    """Other tokens after a row's last weight, other rows without any, and other advantages and
    old log-probabilities there: the same step."""
    rollouts = made_up()
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    weights[:, -3:] = 0
    weights[4] = 0
    reach = weights.shape[1] - (weights[:, ::-1] != 0).argmax(axis=1)
    after = np.arange(weights.shape[1]) >= np.where(weights.any(1), reach, 0)[:, None]
    tokens = np.where(after & rollouts.valid, 3, rollouts.tokens).astype(np.int32)
    changed = replace(rollouts, tokens=tokens)
    assert (changed.tokens != rollouts.tokens)[4].any()
    old = np.full(weights.shape, -2.0, dtype=np.float32)
    one, other = make_engine(model, SMOOTH), make_engine(model, SMOOTH)
    one.update(Update(rollouts, weights, A, PLAIN, old_logp=old), LR)
    other.update(
        Update(
            changed,
            weights,
            np.where(weights.any(1), A, 7.0),
            PLAIN,
            old_logp=np.where(weights != 0, old, 55.0).astype(np.float32),
        ),
        LR,
    )
    assert apart(weights_of(one, tmp_path / "1"), weights_of(other, tmp_path / "2")) < 1e-6


def test_report_logp_is_logprobs_before_the_step(make_engine: MakeEngine, model: Path) -> None:
    engine, rollouts = make_engine(model, SMOOTH, micro_tokens=50), made_up()
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    before = logp_of(engine, rollouts, 0.6)
    report = engine.update(Update(rollouts, weights, A, Objective(temperature=0.6)), LR)
    trained = (weights != 0) & (A != 0)[:, None]
    assert report.logp.dtype == np.float32
    np.testing.assert_allclose(report.logp[trained], before[trained], atol=2e-5)
    assert (report.logp[~trained] == 0).all()
    assert np.abs(logp_of(engine, rollouts, 0.6) - before).max() > 1e-2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_reference_stays_what_it_was(
    make_engine: MakeEngine, tiny_model: Path, dtype: str
) -> None:
    engine, rollouts = make_engine(tiny_model, SMOOTH, dtype=dtype), made_up()
    engine.keep_reference()
    before = logp_of(engine, rollouts)
    train(engine, rollouts, 2)
    np.testing.assert_array_equal(logp_of(engine, rollouts, reference=True), before)
    assert np.abs(logp_of(engine, rollouts) - before).max() > 1e-2


def test_without_any_signal_nothing_moves(
    make_engine: MakeEngine, tiny_model: Path, tmp_path: Path
) -> None:
    """Weight decay included; and without weights the same."""
    settings = OptimizerSettings(weight_decay=0.1)
    engine, rollouts = make_engine(tiny_model, settings), made_up()
    train(engine, rollouts, 1)
    before = state(engine, tmp_path / "before")
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    for given, advantage in [(weights, np.zeros_like(A)), (np.zeros_like(weights), A)]:
        report = engine.update(Update(rollouts, given, advantage, PLAIN), LR)
        assert (report.stepped, report.finite, report.tokens) == (False, True, 0)
        assert (report.logp == 0).all()
    assert state(engine, tmp_path / "after") == before


def test_groups_without_advantage_are_not_run(make_engine: MakeEngine, tiny_model: Path) -> None:
    rollouts = made_up()
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    rows = slice(rollouts.group, 2 * rollouts.group)
    assert weights[rows].any()
    tokens = {
        name: make_engine(tiny_model, micro_tokens=1)
        .update(Update(rollouts, weights, advantage, PLAIN), LR)
        .tokens
        for name, advantage in [("some", A), ("all", np.where(A == 0, 1.0, A))]
    }
    prompt = len(rollouts.prompts[1])
    last = weights.shape[1] - (weights[rows, ::-1] != 0).argmax(axis=1)
    assert tokens["all"] - tokens["some"] == (prompt + last).sum()


@pytest.mark.parametrize("objective", [Objective(kl=0.1), Objective(entropy=0.1)])
def test_other_terms_run_groups_without_advantage(
    make_engine: MakeEngine, tiny_model: Path, tmp_path: Path, objective: Objective
) -> None:
    engine, rollouts = make_engine(tiny_model, SMOOTH), made_up()
    engine.keep_reference()
    train(engine, rollouts, 1)
    before = weights_of(engine, tmp_path / "before")
    weights = sparse_weights(rollouts)
    report = engine.update(Update(rollouts, weights, np.zeros(len(rollouts)), objective), LR)
    assert report.stepped
    assert ((report.logp != 0) == (weights != 0)).all()
    assert apart(weights_of(engine, tmp_path / "after"), before) > 1e-5


def test_clip_fraction_counts_trained_tokens_clipped_away(
    make_engine: MakeEngine, tiny_model: Path
) -> None:
    engine, rollouts = make_engine(tiny_model), made_up()
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


def spoil(what: str, weights: FloatArray, A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Put one number that is not finite at a place that counts."""
    weights, A = weights.copy(), A.copy()
    row = int(np.nonzero(weights.any(1) & (A != 0))[0][0])
    where, value = what.split("=")
    if where == "advantage":
        A[row] = float(value)
    else:
        weights[row, np.nonzero(weights[row])[0][0]] = float(value)
    return weights, A


@pytest.mark.parametrize("what", ["advantage=nan", "advantage=-inf", "weight=nan", "weight=inf"])
@pytest.mark.parametrize("micro_tokens", [30, 8192])
def test_what_is_not_finite_leaves_everything_as_it_was(
    make_engine: MakeEngine, tiny_model: Path, tmp_path: Path, what: str, micro_tokens: int
) -> None:
    engine, rollouts = make_engine(tiny_model, micro_tokens=micro_tokens), made_up()
    train(engine, rollouts, 1)
    before = state(engine, tmp_path / "before")
    weights, A = spoil(what, sparse_weights(rollouts), advantages(rollouts))
    report = engine.update(Update(rollouts, weights, A, PLAIN), LR)
    assert not report.finite
    assert not report.stepped
    assert state(engine, tmp_path / "after") == before
    again = make_engine(tiny_model, micro_tokens=micro_tokens)
    train(again, rollouts, 2)
    train(engine, rollouts, 1, first=1)
    assert state(engine, tmp_path / "went on") == state(again, tmp_path / "never spoilt")


def test_losses_of_both_infinities_step_nothing(
    make_engine: MakeEngine, engine_name: str, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In chunks of their own, whose losses are added up."""
    monkeypatch.setattr(f"ictcli_{engine_name}.update.CHUNK_LOGITS", 1)
    engine, rollouts = make_engine(tiny_model), made_up()
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    rows = np.flatnonzero(weights.any(axis=1) & (A != 0))
    A[rows[0]], A[rows[-1]] = np.inf, -np.inf
    report = engine.update(Update(rollouts, weights, A, PLAIN), LR)
    assert not report.finite
    assert not report.stepped


def test_the_learning_rate_is_that_of_the_call(
    make_engine: MakeEngine, tiny_model: Path, tmp_path: Path
) -> None:
    def moved(lr: float) -> float:
        engine: Engine = make_engine(tiny_model, SMOOTH)
        before = weights_of(engine, tmp_path / f"{lr} before")
        rollouts: Rollouts = made_up()
        engine.update(Update(rollouts, sparse_weights(rollouts), advantages(rollouts), PLAIN), lr)
        return apart(weights_of(engine, tmp_path / f"{lr} after"), before)

    assert moved(0.0) == 0
    assert moved(1e-2) == pytest.approx(10 * moved(1e-3), rel=1e-3)


def test_micro_batches_add_up_in_bfloat16(make_engine: MakeEngine, tiny_model: Path) -> None:
    rollouts = made_up()
    norms = [
        train(make_engine(tiny_model, dtype="bfloat16", micro_tokens=tokens), rollouts, 1)[
            0
        ].grad_norm
        for tokens in (1, 8192)
    ]
    assert norms[0] == pytest.approx(norms[1], rel=0.03)


def test_small_steps_add_up_in_bfloat16(make_engine: MakeEngine, tiny_model: Path) -> None:
    """Each step is far below the spacing of bfloat16 numbers around a weight of 0.3: rounded away
    every time, it would train nothing. Many together move the model as they do in float32."""
    rollouts = made_up()
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    trained = (weights != 0) & (A != 0)[:, None]
    gained: dict[str, float] = {}
    for dtype in ("float32", "bfloat16"):
        engine = make_engine(tiny_model, dtype=dtype)
        before = logp_of(engine, rollouts)
        for _ in range(60):
            assert engine.update(Update(rollouts, weights, A, PLAIN), 3e-5).stepped
        gain = (logp_of(engine, rollouts) - before) * A[:, None]
        gained[dtype] = float(gain[trained].mean())
    assert gained["float32"] > 0.1
    assert gained["bfloat16"] == pytest.approx(gained["float32"], rel=0.2)

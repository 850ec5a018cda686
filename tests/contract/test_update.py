"""Laws of `update`: what it depends on, what it skips, and what it reports."""

from pathlib import Path

import numpy as np
import pytest

from ictcli.algorithm.objective import Objective
from ictcli.engine.update import Update
from ictcli.recipe.tables import OptimizerSettings
from ictcli.types import FloatArray

from .conftest import MakeEngine, made_up
from .training import (
    LR,
    PLAIN,
    SMOOTH,
    advantages,
    logp_of,
    sparse_weights,
    state,
    train,
)


def test_the_reference_stays_what_it_was(make_engine: MakeEngine) -> None:
    """Beside masters; in float32 the KL of `test_update_dense` is to it."""
    engine, rollouts = make_engine(optimizer=SMOOTH, dtype="bfloat16"), made_up()
    engine.keep_reference()
    before = logp_of(engine, rollouts)
    train(engine, rollouts, 2)
    np.testing.assert_array_equal(logp_of(engine, rollouts, reference=True), before)
    assert np.abs(logp_of(engine, rollouts) - before).max() > 1e-2


def test_without_any_signal_nothing_moves(make_engine: MakeEngine, tmp_path: Path) -> None:
    """Weight decay included; and without weights the same."""
    settings = OptimizerSettings(weight_decay=0.1)
    engine, rollouts = make_engine(optimizer=settings), made_up()
    train(engine, rollouts, 1)
    before = state(engine, tmp_path / "before")
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    for given, advantage in [(weights, np.zeros_like(A)), (np.zeros_like(weights), A)]:
        report = engine.update(Update(rollouts, given, advantage, PLAIN), LR)
        assert (report.stepped, report.finite, report.tokens) == (False, True, 0)
        assert (report.logp == 0).all()
    assert state(engine, tmp_path / "after") == before


def test_clip_fraction_counts_trained_tokens_clipped_away(make_engine: MakeEngine) -> None:
    engine, rollouts = make_engine(), made_up()
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


@pytest.mark.parametrize("what", ["advantage=-inf", "weight=nan"])
def test_what_is_not_finite_leaves_everything_as_it_was(
    make_engine: MakeEngine, tmp_path: Path, what: str
) -> None:
    engine, rollouts = make_engine(micro_tokens=30), made_up()
    train(engine, rollouts, 1)
    before = state(engine, tmp_path / "before")
    weights, A = spoil(what, sparse_weights(rollouts), advantages(rollouts))
    report = engine.update(Update(rollouts, weights, A, PLAIN), LR)
    assert not report.finite
    assert not report.stepped
    assert state(engine, tmp_path / "after") == before
    again = make_engine(micro_tokens=30)
    train(again, rollouts, 2)
    train(engine, rollouts, 1, first=1)
    assert state(engine, tmp_path / "went on") == state(again, tmp_path / "never spoilt")


def test_losses_of_both_infinities_step_nothing(
    make_engine: MakeEngine, engine_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In chunks of their own, whose losses are added up."""
    monkeypatch.setattr(f"ictcli_{engine_name}.passes.CHUNK_LOGITS", 1)
    engine, rollouts = make_engine(), made_up()
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    rows = np.flatnonzero(weights.any(axis=1) & (A != 0))
    A[rows[0]], A[rows[-1]] = np.inf, -np.inf
    report = engine.update(Update(rollouts, weights, A, PLAIN), LR)
    assert not report.finite
    assert not report.stepped


def test_micro_batches_add_up_in_bfloat16(make_engine: MakeEngine) -> None:
    rollouts = made_up()
    norms = [
        train(make_engine(dtype="bfloat16", micro_tokens=tokens), rollouts, 1)[0].grad_norm
        for tokens in (1, 8192)
    ]
    assert norms[0] == pytest.approx(norms[1], rel=0.03)


def test_small_steps_add_up_in_bfloat16(make_engine: MakeEngine) -> None:
    """Each step is far below the spacing of bfloat16 numbers around a weight of 0.3: rounded away
    every time, it would train nothing. Many together move the model as they do in float32."""
    rollouts = made_up()
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    trained = (weights != 0) & (A != 0)[:, None]
    gained: dict[str, float] = {}
    for dtype in ("float32", "bfloat16"):
        engine = make_engine(dtype=dtype)
        before = logp_of(engine, rollouts)
        for _ in range(8):
            assert engine.update(Update(rollouts, weights, A, PLAIN), 2.5e-4).stepped
        gain = (logp_of(engine, rollouts) - before) * A[:, None]
        gained[dtype] = float(gain[trained].mean())
    assert gained["float32"] > 0.1
    assert gained["bfloat16"] == pytest.approx(gained["float32"], rel=0.2)

"""Laws of low-rank adapters: the plain step on A and B, over a model that stays what it was."""

from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from ictcli.algorithm.objective import Objective
from ictcli.engine.update import Update
from ictcli.recipe.tables import AdapterSettings
from tests.cases import first

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, MakeEngine, made_up
from .lowrank import DORA, LORA, LowRankTrainer, adapters_of, frozen_weights
from .oracle import Oracle
from .test_generate import same
from .test_update_dense import DECAYING
from .training import LR, advantages, apart, logp_of, sparse_weights, state, train

BOTH = pytest.mark.parametrize("adapter", first([DORA, LORA]), ids=["dora", "lora"])
"""DoRA's are LoRA's A and B, and norms."""


@pytest.mark.parametrize("adapter", [LORA, DORA], ids=["lora", "dora"])
def test_fresh_adapters_compute_the_model_itself(
    make_adapted: MakeEngine, make_engine: MakeEngine, adapter: AdapterSettings
) -> None:
    """To the bit with LoRA, whose B begins at 0; DoRA divides norms by each other."""
    rollouts = made_up()
    plain, engine = make_engine(), make_adapted(adapter=adapter)
    one, other = (e.logits(rollouts, rollouts.valid) for e in (plain, engine))
    np.testing.assert_allclose(other, one, atol=0 if adapter is LORA else 1e-5)
    sampled = [e.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED) for e in (plain, engine)]
    same(sampled[1], sampled[0])
    assert engine.describe()["parameters"] == plain.describe()["parameters"]
    assert 0 < engine.describe()["trained"] < plain.describe()["trained"]


def test_an_update_is_the_plain_step_on_a_and_b(
    make_adapted: MakeEngine, tiny_model: Path, tmp_path: Path
) -> None:
    """Three of them: the first moves B alone, since B = 0 hides A. The KL is to the model without
    adapters, which is where training begins."""
    objective = Objective(kl=0.3, entropy=0.1, temperature=0.7)
    engine, rollouts = make_adapted(optimizer=DECAYING, micro_tokens=48), made_up()
    frozen, fresh = frozen_weights(engine), adapters_of(engine, tmp_path / "fresh")
    dense = LowRankTrainer(tiny_model, DECAYING, tmp_path / "fresh")
    engine.keep_reference()
    weights, kl = sparse_weights(rollouts), 0.0
    for step in range(3):
        A = advantages(rollouts, step)
        report = engine.update(Update(rollouts, weights, A, objective), LR)
        plain = dense.update(Update(rollouts, weights, A, objective), LR)
        trained = weights != 0
        assert report.grad_norm == pytest.approx(plain.grad_norm, rel=1e-4)
        assert report.loss == pytest.approx(plain.loss, rel=1e-4, abs=1e-6)
        assert report.kl == pytest.approx(plain.k3[trained].mean(), rel=1e-3, abs=1e-7)
        np.testing.assert_allclose(report.logp, np.where(trained, plain.logp, 0), atol=2e-5)
        kl = report.kl
    assert kl > 1e-5
    found, wanted = adapters_of(engine, tmp_path / "trained"), dense.adapter_weights()
    assert found.keys() == wanted.keys()
    assert apart(found, fresh) > 1e-3
    assert apart(found, wanted) < 1e-5
    assert frozen_weights(engine) == frozen


@BOTH
def test_the_reference_is_the_model_without_adapters(
    make_adapted: MakeEngine, make_engine: MakeEngine, tmp_path: Path, adapter: AdapterSettings
) -> None:
    engine, rollouts = make_adapted(adapter=adapter), made_up()
    engine.keep_reference()
    train(engine, rollouts, 2)
    before = state(engine, tmp_path / "before")
    found = logp_of(engine, rollouts, 0.6, reference=True)
    np.testing.assert_array_equal(found, logp_of(make_engine(), rollouts, 0.6))
    assert np.abs(logp_of(engine, rollouts, 0.6) - found).max() > 1e-3
    sampled = engine.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED)
    np.testing.assert_allclose(logp_of(engine, sampled), sampled.logp, atol=2e-5)
    assert state(engine, tmp_path / "after") == before
    A, weights = advantages(rollouts, 2), sparse_weights(rollouts)
    assert engine.update(Update(rollouts, weights, A, Objective(kl=0.1)), LR).kl > 0


@BOTH
def test_an_export_has_the_adapters_fused_into_it(
    make_adapted: MakeEngine,
    make_engine: MakeEngine,
    tiny_model: Path,
    tmp_path: Path,
    adapter: AdapterSettings,
) -> None:
    """And the engine trains on as if nothing had been written."""
    engine, again, rollouts = (*(make_adapted(adapter=adapter) for _ in range(2)), made_up())
    train(engine, rollouts, 2)
    before, wanted = state(engine, tmp_path / "before"), engine.logits(rollouts, rollouts.valid)
    folder = tmp_path / "exported"
    folder.mkdir()
    engine.export(folder)
    assert state(engine, tmp_path / "after") == before
    for reader in (Oracle(folder), make_engine(folder)):
        found = reader.logits(rollouts, rollouts.valid)
        np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=1e-5)
    assert load_file(folder / "model.safetensors").keys() == (
        load_file(tiny_model / "model.safetensors").keys()
    )
    train(engine, rollouts, 1, 2)
    train(again, rollouts, 3)
    assert state(engine, tmp_path / "went on") == state(again, tmp_path / "never exported")


@BOTH
def test_an_export_of_16_bits_has_16_bits(
    make_adapted: MakeEngine, make_engine: MakeEngine, tmp_path: Path, adapter: AdapterSettings
) -> None:
    engine, rollouts = make_adapted(adapter=adapter, dtype="bfloat16"), made_up()
    train(engine, rollouts, 2)
    engine.export(tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as written:
        assert {written.get_slice(name).get_dtype() for name in written.keys()} == {"BF16"}  # noqa: SIM118
    again = make_engine(tmp_path, dtype="bfloat16")
    np.testing.assert_allclose(logp_of(again, rollouts), logp_of(engine, rollouts), atol=0.3)


def test_gradient_checkpointing_changes_nothing(make_adapted: MakeEngine, tmp_path: Path) -> None:
    """With all weights: test_shared_prompts."""
    found = []
    for checkpointing in (False, True):
        engine = make_adapted(gradient_checkpointing=checkpointing)
        train(engine, made_up(), 2)
        found.append(adapters_of(engine, tmp_path / str(checkpointing)))
    assert apart(*found) < 1e-6

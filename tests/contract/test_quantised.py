"""Laws of few bits: packed weights, what trains on top of them, and how they are written. Sampling
from weights of 8 bits."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused
from safetensors.numpy import load_file

from ictcli.algorithm.objective import SAMPLER_CAP
from tests.cases import first

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, Make, made_up, make_mlx, reader
from .lowrank import LORA, exported_adapters, frozen_weights, make_quantised
from .oracle import Oracle
from .training import LR, SMOOTH, apart, exported, logp_of, plain_update, state, train, weights_of

WEIGHTS = "model.safetensors"
make = partial(make_mlx, optimizer=SMOOTH, adapter=LORA)


@pytest.fixture(scope="module")
def packed_model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_quantised(tiny_model, tmp_path_factory.mktemp("models") / "packed")


def config_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def unpacked(folder: Path) -> bool:
    """Whether neither the settings nor the weights in a folder are of packed numbers."""
    config, weights = config_of(folder), load_file(folder / WEIGHTS)
    settings = any(name.startswith("quantization") for name in config)
    packed = any(w.dtype == np.uint32 or n.endswith(".scales") for n, w in weights.items())
    assert settings == packed
    return not packed


def test_adapters_train_on_packed_weights(packed_model: Path, tmp_path: Path) -> None:
    engine, rollouts = make(packed_model, adapter=LORA), made_up()
    before = frozen_weights(engine)
    first = engine.logits(rollouts, rollouts.valid)
    plain = reader("mlx", packed_model).logits(rollouts, rollouts.valid)
    np.testing.assert_array_equal(first, plain)
    assert all(report.stepped for report in train(engine, rollouts, 2))
    again = reader("mlx", exported_adapters(engine, tmp_path))
    np.testing.assert_array_equal(logp_of(again, rollouts), logp_of(engine, rollouts))
    assert frozen_weights(engine) == before
    moved = np.abs(engine.logits(rollouts, rollouts.valid) - first).max()
    assert moved > 1e-2
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED)
    np.testing.assert_allclose(logp_of(engine, found), found.logp, atol=2e-5)


def test_packed_weights_themselves_are_not_trained(tiny_model: Path, packed_model: Path) -> None:
    with refused(str(packed_model), hint="adapter.kind=lora"):
        make_mlx(packed_model)
    with refused(hint="adapter.kind=lora"):
        make_mlx(tiny_model, SMOOTH, load_in_4bit=True)


def test_all_weights_are_packed_as_they_are_loaded(tiny_model: Path) -> None:
    engine, rollouts = make(tiny_model, load_in_4bit=True), made_up()
    assert engine.describe()["bits"] == [4]
    plain = logp_of(make_mlx(tiny_model), rollouts)
    gap = np.abs(logp_of(engine, rollouts) - plain)
    assert 1e-3 < gap.mean() < 0.5
    assert train(engine, rollouts, 1)[0].stepped


@pytest.mark.parametrize(("bits", "mode"), first([(4, "affine"), (8, "affine"), (4, "mxfp4")], 2))
def test_exported_it_is_the_trained_model_unpacked(
    tiny_model: Path, tmp_path: Path, bits: int, mode: str
) -> None:
    """Also to transformers, which knows nothing of MLX's packed numbers."""
    first = make_quantised(tiny_model, tmp_path / "first", bits, mode)
    engine, rollouts = make(first, adapter=LORA), made_up()
    assert engine.describe()["bits"] == [bits] and not unpacked(first)
    train(engine, rollouts, 3)
    before, wanted = state(engine), engine.logits(rollouts, rollouts.valid)
    plain = exported(engine, tmp_path / "plain")
    assert state(engine) == before
    np.testing.assert_array_equal(engine.logits(rollouts, rollouts.valid), wanted)
    whole = make_mlx(plain)
    assert unpacked(plain) and whole.describe()["bits"] == []
    assert whole.describe()["parameters"] == engine.describe()["parameters"]
    for other in (Oracle(plain), whole):
        found = other.logits(rollouts, rollouts.valid)
        np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=1e-5)


def test_a_token_of_another_sampler_counts_by_a_bounded_ratio(make_engine: Make) -> None:
    """As if its weight were multiplied, with either engine."""
    plain, one, other = plain_update(made_up()), *(make_engine(optimizer=SMOOTH) for _ in range(2))
    logp = logp_of(one, plain.rollouts)
    moved = np.random.default_rng(0).normal(0, 1, logp.shape).astype(np.float32)
    factor = np.minimum(np.exp(moved), SAMPLER_CAP)
    report = one.update(replace(plain, sampler_logp=logp - moved), LR)
    other.update(replace(plain, weights=plain.weights * factor), LR)
    assert apart(weights_of(one), weights_of(other)) < 1e-5
    trained = (plain.weights != 0) & (plain.advantage != 0)[:, None]
    assert report.ratio_gap == pytest.approx(np.abs(moved[trained]).max(), abs=1e-3)

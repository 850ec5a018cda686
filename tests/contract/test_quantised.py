"""Laws of models with packed weights: what trains on top of them, and how they are written."""

import json
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from refusing import refused
from safetensors.numpy import load_file

from ictcli.recipe.tables import AdapterSettings
from tests.cases import first

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, made_up, make_mlx, reader
from .lowrank import DORA, LORA, adapters_of, frozen_weights, make_quantised
from .oracle import Oracle
from .test_adapters import BOTH
from .test_generate import same
from .training import SMOOTH, logp_of, state, train

WEIGHTS = "model.safetensors"
make = partial(make_mlx, optimizer=SMOOTH, adapter=LORA)


@pytest.fixture(scope="module")
def packed_model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_quantised(tiny_model, tmp_path_factory.mktemp("models") / "packed")


def written(engine: Any, folder: Path, **how: bool) -> Path:
    folder.mkdir()
    engine.export(folder, **how)
    return folder


def config_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def unpacked(folder: Path) -> bool:
    """Whether neither the settings nor the weights in a folder are of packed numbers."""
    config, weights = config_of(folder), load_file(folder / WEIGHTS)
    settings = any(name.startswith("quantization") for name in config)
    packed = any(w.dtype == np.uint32 or n.endswith(".scales") for n, w in weights.items())
    assert settings == packed
    return not packed


def test_all_weights_of_a_packed_model_are_not_trained(packed_model: Path) -> None:
    with refused(str(packed_model), hint="adapter.kind=lora"):
        make_mlx(packed_model)


def test_a_packed_model_is_sampled_from(packed_model: Path, tmp_path: Path) -> None:
    """It is what its weights unpacked are."""
    assert not unpacked(packed_model)
    engine = reader("mlx", packed_model)
    assert engine.describe()["bits"] == [4]
    plain = make_mlx(written(engine, tmp_path / "plain"))
    assert plain.describe()["bits"] == []
    assert plain.describe()["parameters"] == engine.describe()["parameters"]
    one, other = (e.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED) for e in (engine, plain))
    same(one, other)


@BOTH
def test_adapters_train_on_packed_weights(
    packed_model: Path, tmp_path: Path, adapter: AdapterSettings
) -> None:
    engine, rollouts = make(packed_model, adapter=adapter), made_up()
    before = frozen_weights(engine)
    first = engine.logits(rollouts, rollouts.valid)
    plain = reader("mlx", packed_model).logits(rollouts, rollouts.valid)
    np.testing.assert_allclose(first, plain, atol=0 if adapter is LORA else 1e-4)
    assert all(report.stepped for report in train(engine, rollouts, 2))
    adapters_of(engine, tmp_path)
    again = reader("mlx", tmp_path)
    np.testing.assert_array_equal(logp_of(again, rollouts), logp_of(engine, rollouts))
    assert frozen_weights(engine) == before
    moved = np.abs(engine.logits(rollouts, rollouts.valid) - first).max()
    assert moved > 1e-2
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED)
    np.testing.assert_allclose(logp_of(engine, found), found.logp, atol=2e-5)


def test_all_weights_are_packed_as_they_are_loaded(tiny_model: Path) -> None:
    with refused(hint="adapter.kind=lora"):
        make_mlx(tiny_model, SMOOTH, load_in_4bit=True)
    engine, rollouts = make(tiny_model, load_in_4bit=True), made_up()
    assert engine.describe()["bits"] == [4]
    plain = logp_of(make_mlx(tiny_model), rollouts)
    gap = np.abs(logp_of(engine, rollouts) - plain)
    assert 1e-3 < gap.mean() < 0.5
    assert train(engine, rollouts, 1)[0].stepped


@pytest.mark.parametrize(
    ("adapter", "bits", "mode"),
    first([(DORA, 4, "affine"), (LORA, 8, "affine"), (LORA, 4, "mxfp4")], 2),
)
def test_unpacked_it_is_the_trained_model(
    tiny_model: Path, tmp_path: Path, adapter: AdapterSettings, bits: int, mode: str
) -> None:
    """Also to transformers, which knows nothing of MLX's packed numbers."""
    packed = make_quantised(tiny_model, tmp_path / "packed", bits, mode)
    engine, rollouts = make(packed, adapter=adapter), made_up()
    train(engine, rollouts, 2)
    before, wanted = state(engine, tmp_path / "before"), engine.logits(rollouts, rollouts.valid)
    folder = written(engine, tmp_path / "plain")
    assert unpacked(folder)
    for other in (Oracle(folder), make_mlx(folder)):
        found = other.logits(rollouts, rollouts.valid)
        np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=1e-5)
    assert state(engine, tmp_path / "after") == before
    np.testing.assert_array_equal(engine.logits(rollouts, rollouts.valid), wanted)


@BOTH
def test_packed_again_it_is_a_packed_model(
    packed_model: Path, tmp_path: Path, adapter: AdapterSettings
) -> None:
    """The trained one, with every weight rounded to a step of its group's."""
    engine, rollouts = make(packed_model, adapter=adapter), made_up()
    train(engine, rollouts, 3)
    before, wanted = state(engine, tmp_path / "before"), engine.logits(rollouts, rollouts.valid)
    folder, plain = (
        written(engine, tmp_path / str(packed), packed=packed) for packed in (True, False)
    )
    assert state(engine, tmp_path / "after") == before
    assert not unpacked(folder)
    assert config_of(folder)["quantization"] == {"group_size": 32, "bits": 4}
    assert load_file(folder / WEIGHTS).keys() == load_file(packed_model / WEIGHTS).keys()
    gaps = rounding(folder, plain)
    assert len(gaps) > 14
    assert max(gaps.values()) < 1
    again = reader("mlx", folder)
    assert again.describe()["bits"] == [4]
    np.testing.assert_allclose(again.logits(rollouts, rollouts.valid), wanted, atol=2)
    assert train(make(folder, adapter=adapter), rollouts, 1)[0].stepped


def rounding(packed: Path, plain: Path) -> dict[str, float]:
    """How far the numbers of each packed tensor are from the plain ones, in their group's steps."""
    import mlx.core as mx

    weights, wanted = (cast(Any, mx.load(str(folder / WEIGHTS))) for folder in (packed, plain))
    found = {}
    for name in [key.removesuffix(".scales") for key in weights if key.endswith(".scales")]:
        parts = [weights[f"{name}.{part}"] for part in ("weight", "scales", "biases")]
        gap = np.array(
            mx.abs(mx.dequantize(*parts, group_size=32, bits=4) - wanted[f"{name}.weight"])
        )
        steps = np.abs(np.array(parts[1])).repeat(32, axis=1)
        found[name] = float((gap / steps).max())
    return found


def test_packed_weights_compute_in_bfloat16_too(packed_model: Path) -> None:
    engine, rollouts = make(packed_model, dtype="bfloat16"), made_up()
    assert engine.describe()["dtype"] == "bfloat16"
    before = logp_of(engine, rollouts)
    np.testing.assert_allclose(before, logp_of(make(packed_model), rollouts), atol=0.5)
    assert all(report.stepped for report in train(engine, rollouts, 2))
    assert np.abs(logp_of(engine, rollouts) - before).max() > 1e-2

"""Laws of low-rank adapters: the plain step on A and B over a model that stays what it was, which
layers get some, and adapters as files: written, read, refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as load_torch

from ictcli.algorithm.objective import Objective
from ictcli.engine.models import BUILTIN
from ictcli.recipe.tables import NewAdapters
from tests.cases import first

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, Make, made_up, reader
from .lowrank import (
    CONFIG,
    LORA,
    LowRankTrainer,
    adapters_of,
    exported_adapters,
    files_of,
    frozen_weights,
)
from .oracle import Oracle
from .test_generate import same
from .test_update import DECAYING, step_alike
from .training import LR, SMOOTH, apart, exported, logp_of, plain_update, state, train


def test_fresh_adapters_compute_the_model_itself(make_adapted: Make, make_engine: Make) -> None:
    """To the bit: B begins at 0."""
    rollouts = made_up()
    plain, engine = make_engine(), make_adapted()
    one, other = (e.logits(rollouts, rollouts.valid) for e in (plain, engine))
    np.testing.assert_array_equal(other, one)
    sampled = [e.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED) for e in (plain, engine)]
    same(sampled[1], sampled[0])
    assert engine.describe()["parameters"] == plain.describe()["parameters"]
    assert 0 < engine.describe()["trained"] < plain.describe()["trained"]


def test_an_update_is_the_plain_step_on_a_and_b(
    make_adapted: Make, tiny_model: Path, tmp_path: Path
) -> None:
    """Three of them: the first moves B alone, since B = 0 hides A. The KL is to the model without
    adapters, which is where training begins."""
    objective = Objective(kl=0.3, entropy=0.1, temperature=0.7)
    engine, rollouts = make_adapted(optimizer=DECAYING, micro_tokens=48), made_up(group=4)
    frozen, fresh = frozen_weights(engine), adapters_of(engine)
    dense = LowRankTrainer(tiny_model, DECAYING, exported_adapters(engine, tmp_path))
    engine.keep_reference()
    updates = [replace(plain_update(rollouts, n), objective=objective) for n in range(3)]
    reports = [step_alike(engine, dense, update, LR) for update in updates]
    assert reports[-1].kl > 1e-5
    found, wanted = adapters_of(engine), dense.adapter_weights()
    assert found.keys() == wanted.keys()
    assert apart(found, fresh) > 1e-3
    assert apart(found, wanted) < 1e-5
    assert frozen_weights(engine) == frozen


def test_the_reference_is_the_model_without_adapters(make_adapted: Make, make_engine: Make) -> None:
    engine, rollouts = make_adapted(), made_up()
    engine.keep_reference()
    train(engine, rollouts, 2)
    before = state(engine)
    found = logp_of(engine, rollouts, 0.6, reference=True)
    np.testing.assert_array_equal(found, logp_of(make_engine(), rollouts, 0.6))
    assert np.abs(logp_of(engine, rollouts, 0.6) - found).max() > 1e-3
    sampled = engine.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED)
    np.testing.assert_allclose(logp_of(engine, sampled), sampled.logp, atol=2e-5)
    assert state(engine) == before
    assert engine.update(replace(plain_update(rollouts), objective=Objective(kl=0.1)), LR).kl > 0


def test_an_export_has_the_adapters_fused_into_it(
    make_engine: Make, tiny_model: Path, tmp_path: Path
) -> None:
    """And the engine trains on as if nothing had been written."""
    rollouts = made_up()
    for dtype, close, there in (("float32", 1e-4, "float32"), ("bfloat16", 1.0, "float16")):
        engine, again = (make_engine(tiny_model, SMOOTH, LORA, dtype=dtype) for _ in range(2))
        train(engine, rollouts, 2)
        before, wanted = state(engine), engine.logits(rollouts, rollouts.valid)
        folder = exported(engine, tmp_path / dtype)
        assert state(engine) == before
        for other in (Oracle(folder), make_engine(folder, dtype=dtype)):
            found = other.logits(rollouts, rollouts.valid)
            np.testing.assert_allclose(found, wanted, atol=close, rtol=1e-5)
        written, given = (load_torch(path / "model.safetensors") for path in (folder, tiny_model))
        assert written.keys() == given.keys()
        assert {str(weight.dtype) for weight in written.values()} == {f"torch.{there}"}
        assert json.loads((folder / "config.json").read_text("utf-8"))["dtype"] == there
        train(engine, rollouts, 1, 2)
        train(again, rollouts, 3)
        assert state(engine) == state(again)


LAYERS = {
    *(f"self_attn.{x}_proj" for x in "qkvo"),
    *(f"mlp.{x}_proj" for x in ("gate", "up", "down")),
}


QUERY = "self_attn.q_proj"


def with_(**changed: Any) -> NewAdapters:
    return NewAdapters.model_validate({**LORA.model_dump(), **changed})


@pytest.fixture
def written(make_adapted: Make, tmp_path: Path) -> Path:
    """The adapters of an engine."""
    return exported_adapters(make_adapted(), tmp_path)


def adapted(engine: Any) -> set[tuple[int, str]]:
    """Block, and name within it, of each layer that has an adapter."""
    found = {name.rsplit(".", 1)[0] for name in adapters_of(engine)}
    split = [name.removeprefix("model.layers.").split(".", 1) for name in found]
    return {(int(block), name) for block, name in split}


@pytest.mark.parametrize(
    ("changed", "blocks", "layers"),
    [
        ({"layers": 9}, {0, 1}, LAYERS),
        ({"targets": ("mlp.up_proj", "q_proj"), "layers": 1}, {1}, {"mlp.up_proj", QUERY}),
    ],
    ids=["more than there are", "by place and name"],
)
def test_only_the_layers_asked_for_are_adapted(
    make_adapted: Make, changed: dict[str, Any], blocks: set[int], layers: set[str]
) -> None:
    engine = make_adapted(adapter=with_(**changed))
    assert adapted(engine) == {(block, name) for block in blocks for name in layers}
    assert train(engine, made_up(), 1)[0].stepped


def test_targets_no_chosen_block_has_are_refused(make_adapted: Make, hybrid_model: Path) -> None:
    """The convolution is in the first block; a run without a single adapter would train nothing."""
    with refused("'qproj' (did you mean q_proj?)", "adapter.targets", hint="down_proj"):
        make_adapted(adapter=with_(targets=("q_proj", "qproj")))
    with refused():
        make_adapted(hybrid_model, adapter=with_(targets=("in_proj",), layers=1))


def test_the_seed_decides_the_first_values(make_adapted: Make) -> None:
    one, again, other = (adapters_of(make_adapted(adapter=with_(seed=n))) for n in (3, 3, 4))
    for name, values in one.items():
        assert np.array_equal(again[name], values)
        assert np.array_equal(other[name], values) == name.endswith("lora_b")
    first, second = (one[f"model.layers.{block}.self_attn.q_proj.lora_a"] for block in (0, 1))
    assert not np.array_equal(first, second)


def test_adapters_of_a_run_are_a_model_to_sample_from(
    make_adapted: Make, make_engine: Make, engine_name: str, tmp_path: Path
) -> None:
    engine, rollouts = make_adapted(), made_up()
    train(engine, rollouts, 2)
    exported_adapters(engine, tmp_path / "adapter")
    (tmp_path / "recipe.toml").write_text("", encoding="utf-8")
    again = reader(engine_name, tmp_path)
    np.testing.assert_array_equal(logp_of(again, rollouts), logp_of(engine, rollouts))
    found, wanted = (e.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED) for e in (again, engine))
    same(found, wanted)
    assert again.stop_ids == engine.stop_ids
    whole = make_engine(exported(again, tmp_path / "whole"))
    np.testing.assert_allclose(logp_of(whole, rollouts), logp_of(engine, rollouts), atol=2e-5)


@pytest.mark.parametrize("adapter", [None, LORA], ids=["all weights", "lora"])
def test_training_does_not_begin_with_adapters(
    make_engine: Make, written: Path, adapter: NewAdapters | None
) -> None:
    with refused(str(written), hint="ictcli export"):
        make_engine(written, SMOOTH, adapter)


def spoil(folder: Path, how: str) -> None:
    """Make a folder of adapters one that fits no model, or not the one it names."""
    file, config = files_of(folder)
    weights, peft = load_file(file), "peft_type" in config
    model = "base_model_name_or_path" if peft else "model"
    if how == "another model":
        config[model] = str(BUILTIN["chain"])
    elif how == "some are missing":
        weights = {name: values for name, values in weights.items() if "layers.0" in name}
    elif how == "settings are missing":
        del config["target_modules" if peft else "lora_parameters"]
    elif how == "itself":
        config[model] = str(folder)
    save_file(weights, file, metadata={"format": "pt" if peft else "mlx"})
    (folder / CONFIG).write_text("[" if how == "no JSON" else json.dumps(config), encoding="utf-8")
    if how == "cut short":
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])


HOW = (
    "another model",
    "some are missing",
    "settings are missing",
    "no JSON",
    "cut short",
    "itself",
)


@pytest.mark.parametrize("how", first(HOW, 4))
def test_adapters_that_do_not_fit_are_refused(engine_name: str, written: Path, how: str) -> None:
    assert reader(engine_name, written)
    spoil(written, how)
    with refused(str(written)):
        reader(engine_name, written)

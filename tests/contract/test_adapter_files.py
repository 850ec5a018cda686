"""Laws of which layers get adapters, and of adapters as files: written, read, refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused
from safetensors.numpy import load_file, save_file

from ictcli.engine.models import BUILTIN
from ictcli.recipe.tables import AdapterSettings
from tests.cases import first

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, MakeEngine, made_up, reader
from .lowrank import CONFIG, LORA, adapters_of, files_of
from .test_adapters import BOTH
from .test_generate import same
from .training import SMOOTH, logp_of, state, train

LAYERS = {
    *(f"self_attn.{x}_proj" for x in "qkvo"),
    *(f"mlp.{x}_proj" for x in ("gate", "up", "down")),
}


QUERY = "self_attn.q_proj"


def with_(**changed: Any) -> AdapterSettings:
    return AdapterSettings.model_validate({**LORA.model_dump(), **changed})


@pytest.fixture
def exported(make_adapted: MakeEngine, tmp_path: Path) -> tuple[Any, Path]:
    """An engine, and the folder its adapters were written to."""
    engine = make_adapted()
    adapters_of(engine, tmp_path / "adapter")
    return engine, tmp_path / "adapter"


def adapted(engine: Any, folder: Path) -> set[tuple[int, str]]:
    """Block, and name within it, of each layer that has an adapter."""
    found = {name.rsplit(".", 1)[0] for name in adapters_of(engine, folder)}
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
    make_adapted: MakeEngine,
    tmp_path: Path,
    changed: dict[str, Any],
    blocks: set[int],
    layers: set[str],
) -> None:
    engine = make_adapted(adapter=with_(**changed))
    assert adapted(engine, tmp_path) == {(block, name) for block in blocks for name in layers}
    assert train(engine, made_up(), 1)[0].stepped


def test_an_unknown_target_is_refused_with_a_near_one(make_adapted: MakeEngine) -> None:
    with refused("'qproj' (did you mean q_proj?)", "adapter.targets", hint="down_proj"):
        make_adapted(adapter=with_(targets=("q_proj", "qproj")))


def test_targets_that_no_chosen_block_has_are_refused(
    make_adapted: MakeEngine, hybrid_model: Path
) -> None:
    """The convolution is in the first block; a run without a single adapter would train nothing."""
    with refused():
        make_adapted(hybrid_model, adapter=with_(targets=("in_proj",), layers=1))


def test_the_seed_decides_the_first_values(make_adapted: MakeEngine, tmp_path: Path) -> None:
    one, again, other = (
        adapters_of(make_adapted(adapter=with_(seed=seed)), tmp_path / str(n))
        for n, seed in enumerate((3, 3, 4))
    )
    for name, values in one.items():
        assert np.array_equal(again[name], values)
        assert np.array_equal(other[name], values) == name.endswith("lora_b")
    first, second = (one[f"model.layers.{block}.self_attn.q_proj.lora_a"] for block in (0, 1))
    assert not np.array_equal(first, second)


@BOTH
def test_adapters_of_a_run_are_a_model_to_sample_from(
    make_adapted: MakeEngine,
    make_engine: MakeEngine,
    engine_name: str,
    tmp_path: Path,
    adapter: AdapterSettings,
) -> None:
    engine, rollouts = make_adapted(adapter=adapter), made_up()
    train(engine, rollouts, 2)
    adapters_of(engine, tmp_path / "adapter")
    (tmp_path / "recipe.toml").write_text("", encoding="utf-8")
    again = reader(engine_name, tmp_path)
    np.testing.assert_array_equal(logp_of(again, rollouts), logp_of(engine, rollouts))
    found, wanted = (e.generate(PROMPTS, GROUP, SAMPLING, 7, WANTED) for e in (again, engine))
    same(found, wanted)
    assert again.stop_ids == engine.stop_ids
    whole = tmp_path / "whole"
    whole.mkdir()
    again.export(whole)
    np.testing.assert_allclose(
        logp_of(make_engine(whole), rollouts), logp_of(engine, rollouts), atol=2e-5
    )


@pytest.mark.parametrize("adapter", [None, LORA], ids=["all weights", "lora"])
def test_training_does_not_begin_with_adapters(
    make_engine: MakeEngine, exported: tuple[Any, Path], adapter: AdapterSettings | None
) -> None:
    with refused(str(exported[1]), hint="ictcli export"):
        make_engine(exported[1], SMOOTH, adapter)


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


HOW = [
    "another model",
    "some are missing",
    "settings are missing",
    "no JSON",
    "cut short",
    "itself",
]


@pytest.mark.parametrize("how", first(HOW, 4))
def test_adapters_that_do_not_fit_are_refused(
    engine_name: str, exported: tuple[Any, Path], how: str
) -> None:
    folder = exported[1]
    assert reader(engine_name, folder)
    spoil(folder, how)
    with refused(str(folder)):
        reader(engine_name, folder)


def test_other_adapters_are_not_restored(
    make_adapted: MakeEngine, make_engine: MakeEngine, tmp_path: Path
) -> None:
    """Of another rank, of other layers, or of a run that trained all weights."""
    engine = make_adapted()
    before = state(engine, tmp_path / "before")
    others = {"rank": with_(rank=2), "layers": with_(layers=1), "all weights": None}
    for name, adapter in others.items():
        state(make_engine(optimizer=SMOOTH, adapter=adapter), tmp_path / name)
        with refused():
            engine.restore(tmp_path / name)
        assert state(engine, tmp_path / "after") == before

"""Laws of `save`, `restore` and `export`: to the bit, and without pickle."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused
from safetensors.numpy import load_file

from ictcli.engine.checksums import stored_tensors
from ictcli.engine.model_files import TOKENIZER, listed
from ictcli.recipe.tables import NewAdapters
from ictcli.types import Rollouts
from tests.strange import strange

from .conftest import GROUP, PROMPTS, SAMPLING, Make, made_up
from .lowrank import LORA
from .oracle import Oracle
from .test_generate import same
from .training import SMOOTH, alike, apart, exported, logp_of, saved, state, train, weights_of


def only_safetensors(files: dict[str, bytes]) -> None:
    """The length in front, then a JSON header: no pickle under another name."""
    for name, content in files.items():
        assert name.endswith(".safetensors")
        size = int.from_bytes(content[:8], "little")
        assert json.loads(content[8 : 8 + size])


@pytest.mark.parametrize(
    ("adapter", "dtype"), [(None, "bfloat16"), (LORA, "float32")], ids=["masters", "lora"]
)
def test_restore_goes_on_to_the_bit(
    make_engine: Make,
    untied_model: Path,
    tmp_path: Path,
    adapter: NewAdapters | None,
    dtype: str,
    device: str,
) -> None:
    """The engine itself and a fresh one sample and train on as it did (`alike`)."""

    def build(seed: int) -> Any:
        drawn = adapter and adapter.model_copy(update={"seed": seed})
        return make_engine(untied_model, SMOOTH, drawn, dtype=dtype)

    def sample(engine: Any) -> Rollouts:
        return engine.generate(PROMPTS, GROUP, SAMPLING, 7, ("uniqueness",))

    engine, rollouts = build(3), made_up()
    train(engine, rollouts, 2)
    before, sampled = state(engine), sample(engine)
    only_safetensors(before)
    saved(engine, tmp_path)
    train(engine, rollouts, 2, 2)
    went_on = state(engine)
    assert went_on != before
    for other in (engine, build(4)):
        other.restore(tmp_path)
        assert state(other) == before
        same(sample(other), sampled, atol=0)
        train(other, rollouts, 2, 2)
        assert alike(state(other), went_on, device)


def test_a_reset_optimizer_is_that_of_a_model_just_loaded(
    make_engine: Make, tiny_model: Path, tmp_path: Path
) -> None:
    rollouts = made_up()
    engine = make_engine(optimizer=SMOOTH)
    train(engine, rollouts, 2)
    engine.reset_optimizer()
    loaded = make_engine(exported(engine, tmp_path), SMOOTH)
    restored = make_engine(tiny_model, SMOOTH)
    restored.restore(saved(engine, tmp_path))  # without a moment, and still read back
    for each in (engine, loaded, restored):
        train(each, rollouts, 2, 2)
    assert apart(weights_of(engine), weights_of(loaded)) < 1e-6
    assert apart(weights_of(engine), weights_of(restored)) == 0


def test_what_another_engine_saved_is_refused_and_changes_nothing(
    make_engine: Make,
    tiny_model: Path,
    untied_model: Path,
    sliding_model: Path,
    narrow_model: Path,
    tmp_path: Path,
) -> None:
    """Other names of weights, and the same names in other shapes; adapters of another rank, of
    other layers, or none."""
    models = [(folder, None) for folder in (untied_model, sliding_model, narrow_model)]
    changed = [LORA.model_copy(update=each) for each in ({"rank": 2}, {"layers": 1})]
    adapters = [(tiny_model, each) for each in (None, *changed)]
    for adapter, others in ((None, models), (LORA, adapters)):
        engine = make_engine(tiny_model, SMOOTH, adapter)
        train(engine, made_up(), 1)
        before = state(engine)
        for folder, other in others:
            saved(make_engine(folder, SMOOTH, other), tmp_path)
            with refused():
                engine.restore(tmp_path)
            assert state(engine) == before


def test_an_export_has_the_tokenizer_s_bytes_and_says_what_it_holds(
    make_engine: Make, tiny_model: Path, tmp_path: Path
) -> None:
    """Of a model whose config says another type than it is loaded in, by the names of transformers
    5 alone, and beside which a stranger's files lie."""
    base = strange(tiny_model, tmp_path / "base")
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}))
    about = json.loads((base / "tokenizer_config.json").read_text()) | {"eos_token": "#"}
    del about["auto_map"]
    (base / "tokenizer_config.json").write_text(json.dumps(about, indent=7))
    folder = exported(make_engine(base, dtype="float32"), tmp_path / "out")
    made = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    tokens = {str(path.relative_to(base)) for path in listed(base, TOKENIZER)}
    assert tokens < made == {str(path.relative_to(folder)) for path in listed(folder)}
    assert {*tokens} >= {"tokenizer.json", "merges.txt", "additional_chat_templates/tools.jinja"}
    for name in tokens:
        assert (folder / name).read_bytes() == (base / name).read_bytes(), name
    config = json.loads((folder / "config.json").read_text())
    kinds = {tensor.kind for tensor in stored_tensors(folder / "model.safetensors")}
    assert (config["dtype"], kinds) == ("float32", {"F32"})
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"]


def test_an_export_loads_with_transformers_and_as_an_engine(
    make_engine: Make, model: Path, tmp_path: Path
) -> None:
    """Untrained it is the model itself."""
    engine, rollouts = make_engine(model), made_up()
    assert apart(weights_of(engine), load_file(model / "model.safetensors")) == 0
    train(engine, rollouts, 2)
    folder = exported(engine, tmp_path)
    assert not [p for p in folder.iterdir() if p.suffix in (".bin", ".pt", ".pth", ".pkl")]
    wanted = Oracle(folder).logits(rollouts, rollouts.valid)
    found = engine.logits(rollouts, rollouts.valid)
    np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=1e-5)
    again, text = make_engine(folder), "1+2*3=7#"
    assert (again.stop_ids, again.context) == (engine.stop_ids, engine.context)
    assert again.tokenizer(text)["input_ids"] == engine.tokenizer(text)["input_ids"]
    np.testing.assert_array_equal(logp_of(again, rollouts), logp_of(engine, rollouts))

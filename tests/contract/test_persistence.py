"""Laws of `save`, `restore` and `export`: to the bit, and without pickle."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused
from safetensors.numpy import load_file

from ictcli.recipe.tables import AdapterSettings

from .conftest import GROUP, PROMPTS, SAMPLING, MakeEngine, made_up
from .lowrank import DORA
from .oracle import Oracle
from .test_generate import same
from .training import SMOOTH, apart, logp_of, state, train, weights_of

Build = Callable[[], Any]


def goes_on_to_the_bit(build: Build, fresh: Build, folder: Path) -> None:
    """Of an engine: the engine itself and a fresh one restore what it saved after two steps, sample
    and train on as it did."""
    engine, rollouts = build(), made_up()
    train(engine, rollouts, 2)
    saved = state(engine, folder / "saved")
    sampled = engine.generate(PROMPTS, GROUP, SAMPLING, 7, ("uniqueness",))
    train(engine, rollouts, 2, 2)
    went_on = state(engine, folder / "went on")
    assert went_on != saved
    for other in (engine, fresh()):
        other.restore(folder / "saved")
        assert state(other, folder / "restored") == saved
        same(other.generate(PROMPTS, GROUP, SAMPLING, 7, ("uniqueness",)), sampled, atol=0)
        train(other, rollouts, 2, 2)
        assert state(other, folder / "repeated") == went_on


@pytest.mark.parametrize(
    ("adapter", "dtype"), [(None, "bfloat16"), (DORA, "float32")], ids=["masters", "dora"]
)
def test_restore_goes_on_to_the_bit(
    make_engine: MakeEngine,
    untied_model: Path,
    tmp_path: Path,
    adapter: AdapterSettings | None,
    dtype: str,
) -> None:
    def build(seed: int) -> Any:
        drawn = adapter and adapter.model_copy(update={"seed": seed})
        return make_engine(untied_model, SMOOTH, drawn, dtype=dtype)

    goes_on_to_the_bit(lambda: build(3), lambda: build(4), tmp_path)


def test_a_reset_optimizer_is_that_of_a_model_just_loaded(
    make_engine: MakeEngine, tiny_model: Path, tmp_path: Path
) -> None:
    rollouts = made_up()
    engine = make_engine(optimizer=SMOOTH)
    train(engine, rollouts, 2)
    engine.reset_optimizer()
    engine.export(tmp_path)
    loaded, restored = (make_engine(path, SMOOTH) for path in (tmp_path, tiny_model))
    state(engine, tmp_path / "saved")  # without a moment, and still read back
    restored.restore(tmp_path / "saved")
    for each in (engine, loaded, restored):
        train(each, rollouts, 2, 2)
    went_on = weights_of(engine, tmp_path / "went on")
    assert apart(went_on, weights_of(loaded, tmp_path / "loaded")) < 1e-6
    assert apart(went_on, weights_of(restored, tmp_path / "restored")) == 0


def test_only_safetensors_are_written(make_engine: MakeEngine, model: Path, tmp_path: Path) -> None:
    """The length in front, then a JSON header: no pickle under another name."""
    engine = make_engine(model)
    train(engine, made_up(), 1)
    for name, content in state(engine, tmp_path).items():
        assert name.endswith(".safetensors")
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        assert header


def test_restoring_another_models_folder_is_a_user_error(
    make_engine: MakeEngine,
    untied_model: Path,
    sliding_model: Path,
    narrow_model: Path,
    tmp_path: Path,
) -> None:
    """Other names of weights, and the same names in other shapes; the engine stays as it was."""
    engine = make_engine()
    train(engine, made_up(), 1)
    before = state(engine, tmp_path / "before")
    for other in (untied_model, sliding_model, narrow_model):
        folder = tmp_path / other.name
        state(make_engine(other), folder)
        with refused():
            engine.restore(folder)
        assert state(engine, tmp_path / "after") == before


def test_an_export_loads_with_transformers_and_as_an_engine(
    make_engine: MakeEngine, model: Path, tmp_path: Path
) -> None:
    """Untrained it is the model itself."""
    engine, rollouts = make_engine(model), made_up()
    first = weights_of(engine, tmp_path / "untrained")
    assert apart(first, load_file(model / "model.safetensors")) == 0
    train(engine, rollouts, 2)
    folder = tmp_path / "trained"
    folder.mkdir()
    engine.export(folder)
    assert not [p for p in folder.iterdir() if p.suffix in (".bin", ".pt", ".pth", ".pkl")]
    wanted = Oracle(folder).logits(rollouts, rollouts.valid)
    found = engine.logits(rollouts, rollouts.valid)
    np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=1e-5)
    again, text = make_engine(folder), "1+2*3=7#"
    assert (again.stop_ids, again.context) == (engine.stop_ids, engine.context)
    assert again.tokenizer(text)["input_ids"] == engine.tokenizer(text)["input_ids"]
    np.testing.assert_array_equal(logp_of(again, rollouts), logp_of(engine, rollouts))

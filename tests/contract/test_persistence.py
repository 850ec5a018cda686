"""Laws of `save`, `restore` and `export`: to the bit, and without pickle."""

import json
from pathlib import Path

import numpy as np
import pytest

from ictcli.errors import UserError

from .conftest import SAMPLING, MakeEngine, made_up
from .training import apart, logp_of, state, train, weights_of


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("fresh", [False, True], ids=["same engine", "fresh engine"])
def test_restore_goes_on_to_the_bit(
    make_engine: MakeEngine, model: Path, tmp_path: Path, before: int, fresh: bool
) -> None:
    engine, rollouts = make_engine(model), made_up()
    train(engine, rollouts, before)
    saved = state(engine, tmp_path / "saved")
    train(engine, rollouts, 2, before)
    went_on = state(engine, tmp_path / "went on")
    assert went_on != saved
    other = make_engine(model) if fresh else engine
    if fresh:
        train(other, rollouts, 1, 17)
    other.restore(tmp_path / "saved")
    assert state(other, tmp_path / "restored") == saved
    train(other, rollouts, 2, before)
    assert state(other, tmp_path / "repeated") == went_on


def test_restore_brings_back_what_is_sampled(
    make_engine: MakeEngine, tiny_model: Path, tmp_path: Path
) -> None:
    engine, rollouts = make_engine(tiny_model), made_up()
    train(engine, rollouts, 2)
    state(engine, tmp_path)
    other = make_engine(tiny_model)
    other.restore(tmp_path)
    sampled = [
        one.generate(rollouts.prompts, 3, SAMPLING, 1, ("uniqueness",)) for one in (engine, other)
    ]
    np.testing.assert_array_equal(sampled[0].tokens, sampled[1].tokens)
    np.testing.assert_array_equal(sampled[0].logp, sampled[1].logp)


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
    tiny_model: Path,
    untied_model: Path,
    sliding_model: Path,
    narrow_model: Path,
    tmp_path: Path,
) -> None:
    """Other names of weights, and the same names in other shapes; the engine stays as it was."""
    engine = make_engine(tiny_model)
    train(engine, made_up(), 1)
    before = state(engine, tmp_path / "before")
    for other in (untied_model, sliding_model, narrow_model):
        folder = tmp_path / other.name
        state(make_engine(other), folder)
        with pytest.raises(UserError) as caught:
            engine.restore(folder)
        assert caught.value.hint
        assert state(engine, tmp_path / "after") == before


def test_export_loads_with_transformers(
    make_engine: MakeEngine, model: Path, tmp_path: Path
) -> None:
    from .oracle import Oracle

    engine, rollouts = make_engine(model), made_up()
    train(engine, rollouts, 2)
    engine.export(tmp_path)
    assert not [p for p in tmp_path.iterdir() if p.suffix in (".bin", ".pt", ".pth", ".pkl")]
    exported = Oracle(tmp_path)
    np.testing.assert_allclose(
        engine.logits(rollouts, rollouts.valid),
        exported.logits(rollouts, rollouts.valid),
        atol=1e-4,
        rtol=1e-5,
    )


def test_export_loads_as_an_engine(make_engine: MakeEngine, model: Path, tmp_path: Path) -> None:
    engine, rollouts = make_engine(model), made_up()
    train(engine, rollouts, 1)
    engine.export(tmp_path)
    again = make_engine(tmp_path)
    assert again.stop_ids == engine.stop_ids
    assert again.context == engine.context
    text = "1+2*3=7#"
    assert again.tokenizer(text)["input_ids"] == engine.tokenizer(text)["input_ids"]
    np.testing.assert_array_equal(logp_of(again, rollouts), logp_of(engine, rollouts))


def test_an_untrained_export_is_the_model_itself(
    make_engine: MakeEngine, model: Path, tmp_path: Path
) -> None:
    from safetensors.numpy import load_file

    assert (
        apart(weights_of(make_engine(model), tmp_path), load_file(model / "model.safetensors")) == 0
    )

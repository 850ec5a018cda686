"""A model's size by its config.json and the headers of its files."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ictcli.engine.shape import ModelShape, read_shape
from ictcli.errors import UserError

QWEN = ModelShape("qwen2", 24, 896, 14, 2, 64, 4864, 151_936, 32768, tied=True)
"""Qwen2.5-0.5B."""


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_those_of_the_model(
    tiny_model: Path, untied_model: Path, tmp_path: Path, *, tied: bool
) -> None:
    from transformers import AutoModelForCausalLM

    folder = tiny_model if tied else untied_model
    true = AutoModelForCausalLM.from_pretrained(folder).num_parameters()
    shape = read_shape(str(folder))
    assert shape.tied == tied
    assert shape.parameters == true  # by the headers of its files
    assert replace(shape, stored=None).parameters == true  # by its config alone
    assert shape.weights(4) == replace(shape, stored=None).weights(4) == 4 * true


def test_the_known_size_of_a_known_model() -> None:
    assert QWEN.parameters == 494_032_768


def test_weights_of_4_bits_are_a_good_quarter() -> None:
    assert QWEN.packed(4).weights(2) / QWEN.weights(2) == pytest.approx(0.28, abs=0.005)
    assert QWEN.packed(4).parameters == QWEN.parameters


def test_a_hub_id_in_the_cache_needs_its_config_alone(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.json"
    config.write_text((tiny_model / "config.json").read_text())
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *arguments: str(config))
    shape = read_shape("somebody/has-this")
    assert shape.stored is None
    assert shape.parameters == read_shape(str(tiny_model)).parameters


@pytest.mark.parametrize("value", [0, -1, 10**400, float("inf"), float("nan"), 1e308, [], None])
@pytest.mark.parametrize("key", ["hidden_size", "vocab_size", "num_attention_heads"])
def test_a_size_of_no_model_is_refused(
    tiny_model: Path, tmp_path: Path, key: str, value: object
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(UserError, match=r"config\.json cannot be read"):
        read_shape(str(folder))

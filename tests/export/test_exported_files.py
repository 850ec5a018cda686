"""What an export writes: the files of the list, and settings that others can load."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused
from safetensors.numpy import save_file

from ictcli.cli import cli
from ictcli.files import write_text
from ictcli.recipe import load_recipe, to_toml
from tests.strange import STRANGE, strange


@pytest.fixture
def export(tmp_path: Path) -> Callable[..., Path]:
    """`ictcli export` of tmp_path/run; returns the folder."""

    def call(layout: str) -> Path:
        out = tmp_path / f"out-{layout}"
        shutil.rmtree(out, ignore_errors=True)
        args = ["export", str(tmp_path / "run"), "--to", layout, "--out", str(out)]
        cli.main(args, standalone_mode=False)
        return out

    return call


@pytest.mark.parametrize("layout", ["hf", "ollama"])
def test_of_a_stranger_s_run_no_file_leaves_that_is_not_on_the_list(
    export: Callable[..., Path], tiny_model: Path, tmp_path: Path, layout: str
) -> None:
    recipe = load_recipe("chain", [f"model={tiny_model}"])
    write_text(tmp_path / "run" / "recipe.toml", to_toml(recipe))
    strange(tiny_model, tmp_path / "run" / "model")
    out = export(layout)
    made = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert {"README.md", "ictcli.json", "config.json", "tokenizer.json"} <= made
    assert {"model.safetensors", "merges.txt", "additional_chat_templates/tools.jinja"} <= made
    assert "SECRET" not in "".join(path.read_text() for path in out.glob("*.json"))
    made |= {*json.loads((out / "config.json").read_text())}
    made |= {*json.loads((out / "tokenizer_config.json").read_text())}
    assert not made & ({*STRANGE, "auto_map"} - {"Modelfile"})


def adapters_of(run: Path, model: str, **settings: Any) -> dict[str, Any]:
    """Write a run of adapters in peft's layout; returns its adapter_config.json."""
    recipe = load_recipe("chain", [f"model={model}", "adapter.kind=lora"])
    write_text(run / "recipe.toml", to_toml(recipe))
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]} | settings
    write_text(run / "adapter" / "adapter_config.json", json.dumps(config))
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"
    weights = {name.format("A"): np.ones((2, 4)), name.format("B"): np.ones((4, 2))}
    save_file(weights, run / "adapter" / "adapter_model.safetensors")
    return config


def config_in(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "adapter_config.json").read_text())


def test_adapters_for_mlx_lm_need_a_base_whose_settings_it_finds(
    export: Callable[..., Path], tiny_model: Path, tmp_path: Path
) -> None:
    """transformers 5 writes `rope_parameters` alone, and mlx-lm would take a theta of its own."""
    base = shutil.copytree(tiny_model, tmp_path / "base")
    evil = {"auto_mapping": {"parent_library": "evil"}}
    adapters_of(tmp_path / "run", str(base), base_model_name_or_path=str(base), **evil)
    with refused("has no rope_theta", hint="--merge"):
        export("mlx")
    assert "auto_mapping" not in config_in(export("hf"))
    config = json.loads((base / "config.json").read_text())
    write_text(base / "config.json", json.dumps(config | {"rope_theta": 1e4}))
    assert config_in(export("mlx"))["lora_parameters"]["scale"] == 2


def test_adapters_name_the_model_of_the_hub_that_was_trained(
    export: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the card and by their settings, and no place on this machine; by what was recorded, not
    by a recipe that was changed since."""
    run = tmp_path / "run"
    cached = {"base_model_name_or_path": str(tmp_path / "cache" / "base")}
    stored = adapters_of(run, "me/other", **cached)
    write_text(run / "environment.json", json.dumps({"model": {"name": str(tmp_path)}}))
    assert config_in(export("hf")) == stored
    write_text(run / "environment.json", json.dumps({"model": {"name": "me/base"}}))
    out = export("hf")
    assert config_in(out) == {**stored, "base_model_name_or_path": "me/base"}
    text = (out / "README.md").read_text()
    assert 'PeftModel.from_pretrained(model, "out-hf")' in text
    assert 'base_model: "me/base"' in text
    assert f"eval {run} {out}\n" in capsys.readouterr().err

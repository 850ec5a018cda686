"""Pushing to the hub, by the whole command against a hub of our own making."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError
from huggingface_hub.utils import filter_repo_objects
from refusing import refused
from safetensors.numpy import save_file

from ictcli.cli import cli
from ictcli.errors import UserError
from ictcli.export import gguf
from ictcli.files import write_text
from ictcli.recipe import load_recipe, to_toml
from tests.strange import STRANGE, strange


def answered(code: int) -> HfHubHTTPError:
    answer: Any = SimpleNamespace(status_code=code, headers={}, request=None)
    return HfHubHTTPError("no", response=answer)


class Hub:
    """Stands for HfApi: remembers what was asked, and what a folder held when it was pushed."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.repositories: dict[str, bool] = {}
        self.held: set[str] = set()
        self.faults: dict[str, Exception] = {}

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what in self.faults:
            raise self.faults[what]

    def whoami(self) -> dict[str, str]:
        self._ask("whoami")
        return {"name": "me"}

    def repo_exists(self, repo: str, *, repo_type: str) -> bool:
        self._ask("repo_exists")
        return repo in self.repositories

    def repo_info(self, repo: str, *, repo_type: str) -> Any:
        return SimpleNamespace(private=self.repositories[repo])

    def create_repo(self, repo: str, *, repo_type: str, private: bool, exist_ok: bool) -> None:
        self._ask("create_repo")
        self.repositories.setdefault(repo, private)

    def upload_folder(
        self, *, folder_path: str, allow_patterns: Any, ignore_patterns: Any, **more: Any
    ) -> None:
        self._ask("upload_folder")
        folder = Path(folder_path)
        names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
        patterns = {"allow_patterns": allow_patterns, "ignore_patterns": ignore_patterns}
        self.held = {*filter_repo_objects(names, **patterns)}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub()
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: made)
    return made


@pytest.fixture
def export(tmp_path: Path, tiny_model: Path) -> Callable[..., None]:
    """`ictcli export` of a finished run, to tmp_path/out."""
    recipe = load_recipe("chain", [f"model={tiny_model}"])
    write_text(tmp_path / "run" / "recipe.toml", to_toml(recipe))
    shutil.copytree(tiny_model, tmp_path / "run" / "model")

    def call(*args: str) -> None:
        where = [str(tmp_path / "run"), "--out", str(tmp_path / "out")]
        cli.main(["export", *where, *args], standalone_mode=False)

    return call


def test_a_whole_folder_is_pushed_private(
    hub: Hub, export: Callable[..., None], tmp_path: Path
) -> None:
    export("--push", "me/it")
    assert hub.repositories == {"me/it": True}
    assert hub.asked == ["whoami", "repo_exists", "create_repo", "upload_folder"]
    assert hub.held == {path.name for path in (tmp_path / "out").iterdir()}
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= hub.held


CONVERTER = """
import json, pathlib, sys
_, _, out, _, _, model = sys.argv
names = {str(path.relative_to(model)) for path in pathlib.Path(model).rglob("*")}
config = json.load(open(model + "/config.json"))
pathlib.Path(out).write_text(" ".join(sorted(names | {*config})))
"""


@pytest.mark.parametrize("layout", ["hf", "ollama", "gguf"])
def test_of_a_stranger_s_run_no_file_leaves_that_is_not_on_the_list(
    hub: Hub,
    export: Callable[..., None],
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    layout: str,
) -> None:
    """Neither to the folder, nor to the hub, nor to llama.cpp's converter, which would run it."""
    (tmp_path / gguf.SCRIPT).write_text(CONVERTER)
    monkeypatch.setenv(gguf.FOLDER, str(tmp_path))
    model, out = tmp_path / "run" / "model", tmp_path / "out"
    strange(tiny_model, tmp_path / "strange")
    shutil.rmtree(model)
    (tmp_path / "strange").rename(model)
    export("--to", layout, "--push", "me/it")
    made = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert made == hub.held and {"README.md", "ictcli.json"} <= made
    if layout == "gguf":
        made = {*(out / "model.gguf").read_text().split()}
    else:
        assert "SECRET" not in "".join(path.read_text() for path in out.glob("*.json"))
        made |= {*json.loads((out / "config.json").read_text())}
        made |= {*json.loads((out / "tokenizer_config.json").read_text())}
    assert not made & ({*STRANGE, "auto_map"} - {"Modelfile"})
    assert {"model.safetensors", "merges.txt", "additional_chat_templates/tools.jinja"} <= made


def test_public_is_asked_for_and_a_public_repository_takes_nothing_else(
    hub: Hub, export: Callable[..., None], tmp_path: Path
) -> None:
    hub.repositories["me/open"] = False
    with refused("public: everybody would see"):
        export("--push", "me/open")
    assert hub.asked == ["whoami", "repo_exists"] and not (tmp_path / "out").exists()
    export("--push", "me/it", "--public")
    assert hub.repositories["me/it"] is False


FAULTS: list[tuple[str, Exception, int, str]] = [
    ("whoami", LocalTokenNotFoundError("none"), 2, "No token for the hub"),
    ("whoami", answered(401), 2, "does not accept the token"),
    ("repo_exists", ConnectionError("no route to host"), 1, "cannot be reached: no route to host"),
    ("create_repo", answered(403), 2, "may not write to me/it"),
    ("upload_folder", answered(500), 1, "refuses (500)"),
    ("upload_folder", TimeoutError("timed out"), 1, "cannot be reached: timed out"),
]


@pytest.mark.parametrize(("where", "fault", "code", "told"), FAULTS)
def test_what_the_hub_refuses_is_a_sentence_and_the_folder_stands(
    hub: Hub,
    export: Callable[..., None],
    tmp_path: Path,
    where: str,
    fault: Exception,
    code: int,
    told: str,
) -> None:
    hub.faults[where] = fault
    with pytest.raises(UserError) as caught:
        export("--push", "me/it")
    assert told in caught.value.message and caught.value.exit_code == code and caught.value.hint
    begun = where in ("create_repo", "upload_folder")
    assert (tmp_path / "out").exists() == begun
    assert (f"hf upload me/it {tmp_path / 'out'}" in caught.value.hint) == begun


def test_a_name_that_is_none_is_refused_at_once(hub: Hub, export: Callable[..., None]) -> None:
    for name in ("it", "me/it/more", "me/ it"):
        with refused("is no repository"):
            export("--push", name)
    assert hub.asked == []


def test_adapters_for_mlx_lm_need_a_base_whose_settings_it_finds(
    tiny_model: Path, tmp_path: Path
) -> None:
    """transformers 5 writes `rope_parameters` alone, and mlx-lm would take a theta of its own."""
    run, base = tmp_path / "run", shutil.copytree(tiny_model, tmp_path / "base")
    recipe = load_recipe("chain", [f"model={base}", "adapter.kind=lora"])
    write_text(run / "recipe.toml", to_toml(recipe))
    there = {"peft_type": "LORA", "base_model_name_or_path": str(base), "r": 2, "lora_alpha": 4}
    there |= {"target_modules": ["q_proj"], "auto_mapping": {"parent_library": "evil"}}
    write_text(run / "adapter" / "adapter_config.json", json.dumps(there))
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"
    weights = {name.format("A"): np.ones((2, 4)), name.format("B"): np.ones((4, 2))}
    save_file(weights, run / "adapter" / "adapter_model.safetensors")

    def export(layout: str) -> dict[str, Any]:
        out = tmp_path / f"out-{layout}"
        args = ["export", str(run), "--to", layout, "--out", str(out)]
        cli.main(args, standalone_mode=False)
        return json.loads((out / "adapter_config.json").read_text())

    with refused("has no rope_theta", hint="--merge --to mlx"):
        export("mlx")
    assert "auto_mapping" not in export("hf")
    config = json.loads((base / "config.json").read_text())
    write_text(base / "config.json", json.dumps(config | {"rope_theta": 1e4}))
    assert export("mlx")["lora_parameters"]["scale"] == 2


def test_pushed_adapters_name_the_model_that_was_trained(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the card and by their settings, and no place on this machine; by what was recorded, not
    by a recipe that was changed since."""
    run, out = tmp_path / "run", tmp_path / "out"
    recipe = load_recipe("chain", ["model=me/base", "adapter.kind=lora"])
    write_text(run / "recipe.toml", to_toml(recipe))
    there = {"peft_type": "LORA", "base_model_name_or_path": str(tmp_path / "cache" / "base")}
    write_text(run / "adapter" / "adapter_config.json", json.dumps(there))
    (run / "adapter" / "adapter_model.safetensors").write_bytes(b"weights")

    def export(*args: str) -> dict[str, Any]:
        cli.main(["export", str(run), "--out", str(out), *args], standalone_mode=False)
        return json.loads((out / "adapter_config.json").read_text())

    write_text(run / "environment.json", json.dumps({"model": {"name": str(tmp_path)}}))
    with refused("others cannot load"):
        export("--push", "me/it")
    write_text(run / "environment.json", json.dumps({"model": {"name": "me/base"}}))
    assert export("--push", "me/it") == {**there, "base_model_name_or_path": "me/base"}
    text = (out / "README.md").read_text()
    assert 'PeftModel.from_pretrained(model, "me/it")' in text and 'base_model: "me/base"' in text
    assert f"next: ictcli eval me/base {out} --bench chain" in capsys.readouterr().err
    shutil.rmtree(out)
    assert export() == there

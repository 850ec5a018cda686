"""Laws of code that a model brings: it runs if its user named it, or if it ran here before."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from refusing import refused

from ictcli.files import gate

from .conftest import Make

MARK = "import pathlib\npathlib.Path({mark!r}).touch()\n"
CLASSES = {
    "torch": "from .beside import Own\n",
    "mlx": "from mlx_lm.models.qwen2 import Model, ModelArgs\n",
}
KEYS = {"torch": {"auto_map": {"AutoModelForCausalLM": "own.Own"}}, "mlx": {"model_file": "own.py"}}


class Coded:
    """A model's folder with code in own.py, or with a tokenizer's, that leaves a mark."""

    def __init__(self, folder: Path, tiny_model: Path, engine_name: str) -> None:
        self.folder, self.mark = folder, folder.parent / "it-ran"
        shutil.copytree(tiny_model, folder)
        mark = MARK.format(mark=str(self.mark))
        self.own, self.beside = folder / "own.py", folder / "beside.py"
        self.own.write_text(CLASSES[engine_name] + mark)
        self.beside.write_text(
            "from transformers import Qwen2ForCausalLM\n\nclass Own(Qwen2ForCausalLM): ..."
        )
        self.set("config.json", KEYS[engine_name])

    def set(self, name: str, keys: dict[str, Any]) -> None:
        path = self.folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | keys))

    def ran(self) -> bool:
        there = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return there


@pytest.fixture
def coded(tmp_path: Path, tiny_model: Path, engine_name: str) -> Coded:
    return Coded(tmp_path / f"model-of-{tmp_path.name}", tiny_model, engine_name)


def test_a_models_code_goes_by_place_and_content(
    make_engine: Make, coded: Coded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_another_command() -> None:
        monkeypatch.setattr(gate, "_now", gate.State(asks=True))

    def load(folder: Path = coded.folder) -> None:
        make_engine(folder, trust_remote_code=True)

    gate.ask()
    hint = "read the code; --trust runs it, now and later"
    with refused("not run here in its present form", ".py", hint=hint):
        load()
    assert not coded.ran()
    gate.note_typed(f"model {coded.folder}")
    load()
    assert coded.ran()
    in_another_command()
    load()
    changed = coded.beside if coded.beside.name in coded.own.read_text()[:20] else coded.own
    changed.write_text(changed.read_text() + "# changed\n")
    with refused(changed.name):
        load()
    in_another_command()
    other = Path(shutil.copytree(coded.folder, coded.folder.with_name(f"copy-{coded.folder.name}")))
    coded.ran()
    with refused(".py"):
        load(other)
    assert not coded.ran()


def test_a_model_in_a_run_is_not_typed(make_engine: Make, coded: Coded) -> None:
    """And its tokenizer's code is asked for as its own."""
    run = coded.folder.parent / "run"
    shutil.copytree(coded.folder, run / "model")
    (run / "recipe.toml").write_text("")
    (run / "model" / "tokens.py").write_text(MARK.format(mark=str(coded.mark)))
    tokenizer = run / "model" / "tokenizer_config.json"
    auto = {"auto_map": {"AutoTokenizer": ["tokens.Own", "tokens.Own"]}}
    gate.ask()
    for model in (run, run / "model"):
        gate.note_typed(f"model {model}")
        with refused(".py"):
            make_engine(model, trust_remote_code=True)
    tokenizer.write_text(json.dumps(json.loads(tokenizer.read_text()) | auto))
    with refused("tokens.py"):
        make_engine(run, trust_remote_code=True)
    assert not coded.ran()

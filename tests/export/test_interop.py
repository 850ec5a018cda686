"""Exports are loaded by what others use: the code of the card."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from chain_texts import EOS_ID

from ictcli.export.make import CODED, UNREAD, export_model, trained_by
from ictcli.recipe import load_recipe
from ictcli.recipe.tables import EngineSettings
from ictcli.runs import Run


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in model, exported from a run whose model lacks an end token, as older runs do."""
    from ictcli.engine.models import BUILTIN

    folder = tmp_path_factory.mktemp("interop")
    with Run.create(folder / "run", load_recipe("chain")) as run:
        model = run.folder / "model"
        model.mkdir()
        for file in BUILTIN["chain"].iterdir():
            (model / file.name).write_bytes(file.read_bytes())
    settings = json.loads((model / "tokenizer_config.json").read_text())
    assert settings["eos_token"] is None
    export_model(trained_by(run.folder, None, None), folder / "made", "hf")
    return folder / "made"


def test_the_card_s_code_runs_and_prints_an_answer_up_to_its_end(
    exported: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(exported.parent)
    used = (exported / "README.md").read_text("utf-8").split("## Use")[1]
    exec(used.split("```python")[1].split("```")[0], names := {})
    assert capsys.readouterr().out.strip().endswith("#")  # the end of an answer of chain
    assert names["model"].generation_config.eos_token_id == EOS_ID


def test_what_others_cannot_read_is_said(exported: Path, tmp_path: Path) -> None:
    """A model with code of its own goes without it; one whose tokenizer is of a class that only
    transformers 5 has goes as it is."""
    run = shutil.copytree(exported.parent / "run", tmp_path / "run")
    settings = run / "model" / "tokenizer_config.json"
    about = json.loads(settings.read_text()) | {"tokenizer_class": "TokenizersBackend"}
    settings.write_text(json.dumps(about | {"eos_token": "#"}))
    plain, trusting = trained_by(run, None, None), EngineSettings(trust_remote_code=True)
    assert export_model(plain, tmp_path / "a", "hf")[0] == UNREAD
    assert (tmp_path / "a" / settings.name).read_bytes() == settings.read_bytes()
    config = run / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"auto_map": {"A": "own.B"}}))
    (run / "model" / "own.py").write_text("raise SystemExit")
    note, _ = export_model(replace(plain, settings=trusting), tmp_path / "b", "hf")
    assert note == f"{CODED.format('builtin:chain')} {UNREAD}"
    assert (
        not [*(tmp_path / "b").glob("*.py")]
        and "auto_map" not in (tmp_path / "b" / config.name).read_text()
    )

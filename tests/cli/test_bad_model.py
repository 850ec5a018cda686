"""Models that are nowhere, and engines that are not there. Models that are damaged:
tests/contract/test_loading.py."""

import shutil
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from processes import Ended, Processes, refusal

from ictcli.errors import install


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("builtin:chian", "no built-in model 'chian' (did you mean chain?)"),
        ("/no/such/folder", "There is no model folder /no/such/folder"),
        ("no-such/model", "The model no-such/model is not in the cache"),
        ("", "is not a model: it has no config.json"),
    ],
)
def test_a_model_that_is_nowhere_is_refused(
    ictcli: Processes, tmp_path: Path, model: str, words: str
) -> None:
    assert words in refusal(ictcli.run("eval", model, "--bench", "chain", folder=tmp_path), 2)
    told = refusal(ictcli.run("train", "chain", f"model={model}", folder=tmp_path), 2)
    assert words in told
    assert not list(tmp_path.glob("runs/*"))


def test_a_run_without_a_final_model_is_not_evaluated(
    ictcli: Processes, trained: tuple[Path, Ended], tmp_path: Path
) -> None:
    shutil.copytree(trained[0], tmp_path / "run", ignore=shutil.ignore_patterns("model"))
    words = (
        "The run run has no finished model yet. ictcli resume run, or take its last checkpoint: "
    )
    for command in (
        ("eval", "run", "--bench", "chain"),
        ("generate", "run", "1+1="),
        ("export", "run"),
    ):
        told = refusal(ictcli.run(*command, folder=tmp_path), 2)
        assert words + "--checkpoint 6" in told


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["engine.device=cuda:99"], 3, "The device 'cuda:99' cannot be used"),
        (["engine.device=abacus"], 3, "The device 'abacus' cannot be used"),
        (["engine.backend=trch"], 2, "no backend 'trch' (did you mean torch?)"),
        (["task=chian"], 2, "no task 'chian' (did you mean chain?)"),
        (["max_tokens=128"], 2, "exceeds the model's context of 128. max_tokens=1"),
        (["prompt.template=chat"], 2, "has no chat template. prompt.template=none"),
    ],
)
def test_a_run_that_cannot_start_leaves_no_folder(
    ictcli: Processes, tiny_model: Path, tmp_path: Path, args: list[str], code: int, words: str
) -> None:
    command = ("train", "chain", f"model={tiny_model}", *args, "--run", "run")
    assert words in refusal(ictcli.run(*command, folder=tmp_path), code)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(
    any(point.name == "mlx" for point in entry_points(group="ictcli.engines")),
    reason="the mlx engine is installed",
)
def test_an_engine_that_is_not_installed_says_how_to_install_it(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    command = ("train", "chain", f"model={tiny_model}", "--backend", "mlx")
    told = refusal(ictcli.run(*command, folder=tmp_path), 3)
    assert f"mlx engine is not installed. {install('mlx')}" in told
    assert not list(tmp_path.glob("runs/*/*"))

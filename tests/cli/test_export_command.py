"""`ictcli export`, and what a run that trained adapters leaves."""

import json
import re
import shutil
from pathlib import Path

import pytest
from processes import Ended, Processes, Small

from ictcli.engine import is_installed

pytestmark = pytest.mark.skipif(not is_installed("mlx"), reason="adapters need the MLX engine")


@pytest.fixture(scope="module")
def adapted(
    processes: Processes, small: Small, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Ended]:
    """A finished run of LoRA, and what it said."""
    folder = tmp_path_factory.mktemp("adapted")
    more = ("--backend", "mlx", "adapter.kind=lora", "steps=3", "--run", "run")
    ended = processes.done("train", "chain", *small, *more, folder=folder)
    return folder / "run", ended


def pass_at_1(ictcli: Processes, model: Path, *more: str) -> float:
    bench = ("--bench", "chain", "--n", "4", "--k", "1", "--limit", "20")
    return ictcli.json("eval", model, *bench, *more)[0]["pass@1"]["value"]


def test_a_run_of_adapters_says_where_they_are(adapted: tuple[Path, Ended]) -> None:
    run, ended = adapted
    told = ended.err.splitlines()
    assert "adapter: run/adapter" in told
    assert "whole: ictcli export run --merge" in told
    assert json.loads((run / "summary.json").read_text())["model"] == "run/adapter"
    assert not (run / "model").exists()
    assert {path.name for path in (run / "adapter").iterdir()} == {
        "adapter_config.json",
        "adapters.safetensors",
    }


def test_exports_of_every_kind_compute_the_same(
    ictcli: Processes, adapted: tuple[Path, Ended], tmp_path: Path
) -> None:
    """The same samples by the engine that reads each layout itself, so the same pass@1."""
    run, _ = adapted
    before = pass_at_1(ictcli, run)
    made = ""
    for args, engine in ((("--merge",), "mlx"), (("--to", "hf"), "torch")):
        made = f"made-{len(list(tmp_path.iterdir()))}"
        ended = ictcli.run("export", run, *args, "--out", made)
        assert (ended.code, ended.out) == (0, f"{made}\n"), ended.err
        assert f"eval {run} {made}\n" in ended.err
        card = (tmp_path / made / "README.md").read_text()
        assert card.startswith("---\nlibrary_name: ")
        (kept,) = re.findall("note: (This export keeps .*)", ended.err)
        assert kept.startswith("This export keeps more than 99.9 % of what") and kept in card
        assert pass_at_1(ictcli, Path(made), "--backend", engine) == before, args
    assert f"{made} exists already" in ictcli.refused("export", run, "--out", made)


def test_a_run_of_adapters_is_trained_on_as_a_whole_model(
    ictcli: Processes, small: Small, adapted: tuple[Path, Ended], tmp_path: Path
) -> None:
    run = shutil.copytree(adapted[0], tmp_path / "first")
    settings = [each for each in small if not each.startswith("model=")]
    more = ("model=first", "--backend", "mlx", "steps=1", "--trust", "--run", "next")
    ended = ictcli.done("train", "chain", *settings, *more)
    assert "merging the adapters" in ended.err and (run / "model" / "config.json").is_file()
    before, after = (
        json.loads((tmp_path / path).read_text())["pass@1"]["value"]
        for path in ("next/eval/before.json", "first/eval/after.json")
    )
    assert before == after


def test_no_other_engine_resumes_a_run(ictcli: Processes, trained: Path, tmp_path: Path) -> None:
    """Its optimiser's state would be lost."""
    run = shutil.copytree(trained, tmp_path / "run")
    (run / "summary.json").unlink()
    recipe = re.sub(r'(?m)^backend = "\w+"', 'backend = "mlx"', (run / "recipe.toml").read_text())
    (run / "recipe.toml").write_text(recipe)
    assert "Another engine saved" in ictcli.refused("resume", "run", "--trust")

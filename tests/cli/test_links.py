"""Nothing is read, written, deleted or copied through a link that leaves the folder it lies in."""

import os
import shutil
from pathlib import Path

import pytest
from processes import Processes

COMMANDS = {
    "resume": ("resume", "run", "steps=7"),
    "eval": ("eval", "run", "--bench", "chain", "--limit", "1", "--n", "1", "-k", "1"),
    "eval the model": ("eval", "run/model", "--bench", "chain", "--limit", "1", "--n", "1"),
    "generate": ("generate", "run", "1+2="),
    "inspect": ("inspect", "run", "--plain"),
    "export": ("export", "run", "--out", "out"),
    "train": ("train", "run/recipe.toml", "--dry-run"),
    "compare": ("compare", "run/recipe.toml", "--dry-run", "--methods", "ict,random"),
    "compare there": ("compare", "chain", "--dry-run", "--out", "run"),
    "download": ("download", "run/recipe.toml"),
    "show": ("runs", "show", "run"),
    "diff": ("runs", "diff", "run", "run"),
    "check": ("runs", "check", "run"),
    "gc": ("runs", "gc", "run", "--finished"),
}
LINKS = {
    "model/merges.txt": "../../beside/key",
    "checkpoints": "../beside/saved",
    "eval/more/again": "../../../beside",
    "metrics.jsonl": "../beside/new",
    ".lock": "../beside/key",
    "rollouts": "rollouts",
}
"""What is replaced in a run, and what the link that takes its place names."""


def linked(run: Path, name: str) -> None:
    path = run / name
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(LINKS[name])


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    paths = sorted(folder.rglob("*"))
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else b"") for p in paths}


@pytest.fixture
def place(trained: Path, tmp_path: Path) -> Path:
    """A run, and beside it a secret and checkpoints of another run."""
    shutil.copytree(trained, tmp_path / "run")
    shutil.copytree(trained / "checkpoints", tmp_path / "beside" / "saved")
    (tmp_path / "beside" / "key").write_text("secret")
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_no_link_out_of_a_run(ictcli: Processes, place: Path, name: str) -> None:
    whole, beside = place.parent / f"{place.name}-whole", state(place / "beside")
    (place / "run").rename(whole)
    for link in LINKS if name == "check" else ["model/merges.txt"]:
        shutil.copytree(whole, place / "run")
        linked(place / "run", link)
        told = ictcli.refused(*COMMANDS[name], folder=place)
        assert f"run/{link} is a link that " in told, told
        assert state(place / "beside") == beside, link
        assert not (place / "out").exists()
        shutil.rmtree(place / "run")


def test_runs_with_links_are_listed_and_removed(ictcli: Processes, place: Path) -> None:
    runs = {f"run-{number}": link for number, link in enumerate(LINKS)}
    for name, link in runs.items():
        shutil.copytree(place / "run", place / name)
        linked(place / name, link)
    beside = state(place / "beside")
    listed = ictcli.run("runs", "ls", ".", folder=place)
    swept = ictcli.run("runs", "gc", ".", folder=place)
    assert (listed.code, swept.code) == (0, 0)
    for name, link in runs.items():
        assert f"{name}/{link} is a link that " in listed.out + listed.err
        assert f"{name}/{link} is a link that " in swept.err
    assert "run: step-000004" in swept.out
    ictcli.done("runs", "rm", *runs, "--yes", folder=place)
    assert not any(os.path.lexists(place / name) for name in runs)
    assert state(place / "beside") == beside


def test_links_inside_and_links_to_runs_are_followed(ictcli: Processes, place: Path) -> None:
    run = place / "run"
    (run / "model").rename(run / "kept")
    (run / "model").symlink_to("kept")
    (run / "wandb").mkdir()
    (run / "wandb" / "debug-core.log").symlink_to("/tmp/logs/core.log")  # as wandb leaves it
    (place / "disk").mkdir()
    run.rename(place / "disk" / "run")
    (place / "runs").symlink_to("disk")
    ictcli.done("export", "run", "--trust", "--out", "out", folder=place)
    assert (place / "out" / "model.safetensors").is_file()


def test_an_evaluation_takes_no_link_out_of_its_folder(ictcli: Processes, place: Path) -> None:
    args = ("eval", "run", "--trust", "--bench", "chain", "--limit", "1", "--n", "1", "-k", "1")
    ictcli.done(*args, "--out", "out", folder=place)
    beside = state(place / "beside")
    (place / "out" / "chain.jsonl").unlink()
    (place / "out" / "chain.jsonl").symlink_to("../beside/new")
    told = ictcli.refused(*args, "--out", "out", "--resume", folder=place)
    assert "out/chain.jsonl is a link that leaves out" in told
    assert state(place / "beside") == beside

"""Folders that are taken, read-only or full: nothing that was saved is lost. And a run as another
left it: nothing is read, written, deleted or copied through a link that leaves the folder it lies
in, and a file that is not the file that the run wrote is named.

`python bench/damage.py --cases 5000` damages files of runs for every command.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from processes import TRAINED, Processes, Small, refusal
from strangers import COMMANDS

from ictcli.files import is_leftover
from ictcli.runs import Run
from ictcli.runs.show import check_run

EVERY = COMMANDS | {
    "eval the model": ("eval", "run/model", "--bench", "chain", "--limit", "1", "--n", "1"),
    "compare there": ("compare", "chain", "--dry-run", "--out", "run"),
    "show": ("runs", "show", "run"),
    "diff": ("runs", "diff", "run", "run"),
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


def test_a_folder_that_exists_is_left_alone(ictcli: Processes, trained: Path) -> None:
    """A run, or one of other files, which is no run to resume."""
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    told = ictcli.refused("train", "chain", "--run", "run", folder=trained.parent)
    assert "The run folder run exists already" in told
    assert all(way_out in told for way_out in ("ictcli resume run", "--run OTHER", "rm -r run"))
    told = ictcli.refused("train", "chain", "--run", "eval", folder=trained)
    assert "The run folder eval exists already" in told and "resume" not in told
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


def test_a_refusal_leaves_every_folder_as_it_was(
    ictcli: Processes, small: Small, trained: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    run = shutil.copytree(trained, tmp_path / "copy")
    (run / ".lock").unlink()
    stranger = shutil.copytree(run, tmp_path / "stranger")
    recipe = (stranger / "recipe.toml").read_text()
    (tmp_path / "evil.py").write_text("raise SystemExit")
    new = recipe.replace("parity.py", "evil.py").replace("steps = ", "steps = 9")
    (stranger / "recipe.toml").write_text(new)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    folders = {path for path in tmp_path.rglob("*") if path.is_dir()}
    for command in (
        ["train", "chain", *small, "max_tokens=127", "--run", "new/deep/run"],
        ["train", "chain", *small, "max_tokens=127", "--run", "empty"],
        ["train", "chain", *small, "--run", "copy"],
        ["resume", "copy", "steps=1"],
        ["resume", "copy", "seed=3"],
        ["resume", "stranger"],
    ):
        ictcli.refused(*command)
        files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
        assert files == before, command
        assert {path for path in tmp_path.rglob("*") if path.is_dir()} == folders, command


def test_a_disk_that_fills_up_costs_no_more_than_the_steps_since_the_checkpoint(
    ictcli: Processes, small: Small, trained: Path, tmp_path: Path
) -> None:
    args = ("train", "chain", *small, *TRAINED, "checkpoint.last=9")
    with disk(tmp_path / "disk", 768) as full:
        (full / "run").mkdir()
        (full / "run" / ".lock").touch()  # of a process killed before it wrote the recipe
        told = ictcli.refused(*args, "--run", "disk/run", code=1)
        assert "No space is left on the disk" in told and "ictcli resume disk/run" in told
        saved = Run(full / "run").checkpoints()
        assert saved and not [path for path in full.rglob("*") if is_leftover(path)]
        mount("-o", "remount,size=8m", full)
        ictcli.done("resume", "disk/run")
        for name in ("model/model.safetensors", "metrics.jsonl"):
            assert (full / "run" / name).read_bytes() == (trained / name).read_bytes()


def test_a_read_only_folder_is_named(
    ictcli: Processes, small: Small, trained: Path, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    shutil.copytree(trained, tmp_path / "there" / "run")
    (tmp_path / "there" / "run" / "summary.json").unlink()
    commands = (
        ["train", "chain", *small, "--run", "there/new"],
        ["resume", "there/run"],
        ["eval", small[0].partition("=")[2], "--bench", "chain", "--out", "there/out"],
        ["eval", "there/run", "--bench", "chain"],
        ["compare", "chain", *small, "--methods", "ict", "--out", "there/compared"],
        ["recipes", "cp", "chain", "there/mine.toml"],
    )
    with read_only(tmp_path / "there") as there:
        for command in commands:
            ended = ictcli.run(*command)
            told = refusal(ended, 1)
            assert "cannot be written" in told and "there/" in told
            assert "step " not in ended.err  # before any work was done
        told = ictcli.refused("train", "chain", *small, folder=there, code=1)
        assert "cannot be written" in told and "--run" in told
        assert [path.name for path in there.iterdir()] == ["run"]


def mount(*args: str | Path) -> None:
    """Call mount, or skip the test where this process may not."""
    found = subprocess.run(["mount", *args], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"mount is not permitted here: {found.stderr.strip()}")


@contextlib.contextmanager
def disk(folder: Path, kilobytes: int) -> Generator[Path]:
    """A disk of that size at `folder` (a tmpfs)."""
    folder.mkdir()
    mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextlib.contextmanager
def read_only(folder: Path) -> Generator[Path]:
    """`folder`, which may hold files already, taking none within; root's rights are not enough."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    mount("--bind", folder, folder)
    try:
        mount("-o", "remount,bind,ro", folder)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


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


def test_no_command_takes_a_link_out_of_a_run(ictcli: Processes, place: Path) -> None:
    linked(place / "run", "model/merges.txt")
    before = state(place)
    for command in EVERY.values():
        told = ictcli.refused(*command)
        assert "run/model/merges.txt is a link that " in told, (command, told)
        assert state(place) == before, command


def test_runs_with_links_are_listed(ictcli: Processes, place: Path) -> None:
    runs = {f"run-{number}": link for number, link in enumerate(LINKS)}
    for name, link in runs.items():
        shutil.copytree(place / "run", place / name)
        linked(place / name, link)
        assert f"{name}/{link} is a link that " in ictcli.refused("runs", "check", name)
    beside = state(place / "beside")
    listed = ictcli.run("runs", "ls", ".")
    swept = ictcli.run("runs", "gc", ".")
    assert (listed.code, swept.code) == (0, 0)
    for name, link in runs.items():
        assert f"{name}/{link} is a link that " in listed.out + listed.err
        assert f"{name}/{link} is a link that " in swept.err
    assert "run: step-000004" in swept.out
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
    ictcli.done("export", "run", "--trust", "--out", "out")
    assert (place / "out" / "model.safetensors").is_file()


def test_an_evaluation_takes_no_link_out_of_its_folder(ictcli: Processes, place: Path) -> None:
    args = ("eval", "run", "--trust", "--bench", "chain", "--limit", "1", "--n", "1", "-k", "1")
    ictcli.done(*args, "--out", "out")
    beside = state(place / "beside")
    (place / "out" / "chain.jsonl").unlink()
    (place / "out" / "chain.jsonl").symlink_to("../beside/new")
    told = ictcli.refused(*args, "--out", "out", "--resume")
    assert "out/chain.jsonl is a link that leaves out" in told
    assert state(place / "beside") == beside


def test_every_file_that_is_written_once_is_checked(place: Path) -> None:
    run = place / "run"
    assert check_run(run).faults == {}
    for path in [path for path in run.rglob("*") if path.is_file() and path.name != ".lock"]:
        before, name = path.read_bytes(), path.relative_to(run)
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        assert {name.as_posix(), name.parent.as_posix()} & set(check_run(run).faults), name
        path.write_bytes(before)


def test_what_still_reads_but_was_altered_is_named(ictcli: Processes, place: Path) -> None:
    for file in ("summary.json", "environment.json", "recipe.toml"):
        path = place / "run" / file
        path.write_text(path.read_text().rstrip("\n") + "\n\n")
    for command, file in (
        (("runs", "ls", "."), "summary.json"),
        (("runs", "show", "run"), "environment.json"),
        (COMMANDS["eval"], "recipe.toml"),
        (COMMANDS["export"], "environment.json"),
        (("resume", "run"), "summary.json"),
    ):
        ended = ictcli.done(*command)
        assert f"{file} is not the file that the run wrote" in ended.out + ended.err, command

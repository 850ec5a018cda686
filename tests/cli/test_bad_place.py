"""Folders that are taken, in use, read-only or full: nothing that was saved is lost."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from processes import TRAINED, Processes, Small, refusal

from ictcli.files import is_leftover
from ictcli.runs import Run


def test_a_folder_that_exists_is_left_alone(ictcli: Processes, trained: Path) -> None:
    """A run, or one of other files, which is no run to resume."""
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    told = ictcli.refused("train", "chain", "--run", "run", folder=trained.parent)
    assert "The run folder run exists already" in told
    assert all(way_out in told for way_out in ("ictcli resume run", "--run OTHER", "rm -r run"))
    told = ictcli.refused("train", "chain", "--run", "eval", folder=trained)
    assert "The run folder eval exists already" in told and "resume" not in told
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


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


def test_a_disk_full_at_the_start_is_named(ictcli: Processes, small: Small, tmp_path: Path) -> None:
    with disk(tmp_path / "disk", 4) as full:
        (full / "filling").write_bytes(bytes(1 << 12))
        for args in (
            ["train", "chain", *small, "--run", "disk/run"],
            ["recipes", "cp", "chain", "disk/mine.toml"],
            ["eval", small[0].partition("=")[2], "--bench", "chain", "--out", "disk/out"],
        ):
            assert "No space is left on the disk" in ictcli.refused(*args, code=1)
        left = {path.name for path in full.rglob("*") if path.is_file()}
        assert left == {"filling", ".lock"}
        mount("-o", "remount,size=2m", full)
        args = ("train", "chain", *small, "steps=1", "--run", "disk/run")
        ictcli.done(*args)


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

"""A bad run folder hides no other, is listed itself, and can be removed."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import Ended, Processes

from tests.conftest import PROFILE

DEEP = 5000


def huge(path: Path) -> None:
    path.unlink()
    with path.open("wb") as file:
        file.truncate(40 << 30)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def outside(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def deep(path: Path) -> None:
    start = "a = " if path.suffix == ".toml" else ""
    path.write_text(start + "[" * DEEP + "]" * DEEP)


def bottomless(path: Path) -> None:
    for at in range(20):  # a path is shorter than 4,096 characters
        inner = path.parent / Path(*"d" * 100)
        inner.mkdir(parents=True)
        (path.parent / "d").rename(path.parent / f"{at}")
        if at:
            (path.parent / f"{at - 1}").rename(path.parent / f"{at}" / Path(*"d" * 99) / "d")


def old(path: Path) -> None:
    os.utime(path, (1e14, 1e14))


def tall(path: Path) -> None:
    line = dict.fromkeys(json.loads(path.read_text().splitlines()[0]), 1e308)
    path.write_text("".join(json.dumps({**line, "step": i + 1}) + "\n" for i in range(20_000)))


BAD: list[tuple[str, Callable[[Path], None]]] = [
    *(("recipe.toml", damage) for damage in (huge, pipe, loop, outside, folder, deep, old)),
    *(("summary.json", damage) for damage in (pipe, folder, deep)),
    *(("metrics.jsonl", damage) for damage in (huge, pipe, tall)),
    *(("manifest.json", damage) for damage in (outside, deep)),
    ("eval/after.json", huge),
    ("environment.json", bottomless),
    *((".lock", damage) for damage in (pipe, loop, outside, folder)),
]


@pytest.mark.thorough
def test_bad_folders_hide_no_other_and_can_be_removed(
    ictcli: Processes, trained: tuple[Path, Ended], tmp_path: Path
) -> None:
    runs = {f"bad-{number}": case for number, case in enumerate(BAD)}
    for run in ("good", *runs):
        shutil.copytree(trained[0], tmp_path / "runs" / run)
    for run, (name, damage) in runs.items():
        damage(tmp_path / "runs" / run / name)
    listed = ictcli.run("runs", "ls", "--json", folder=tmp_path)
    assert listed.code == 0, listed.err
    entries = {Path(entry["run"]).name: entry for entry in strict(listed.out)}
    assert set(entries) == {"good", *runs} and entries["good"]["state"] == "finished"
    for run in runs:
        for command in (("show", run), ("diff", run, "good"))[: 2 if PROFILE == "thorough" else 1]:
            ended = ictcli.run("runs", *command, "--json", folder=tmp_path)
            assert ended.code in (0, 2) and "Traceback" not in ended.err, (runs[run], ended.err)
            assert ended.code or strict(ended.out)
    ended = ictcli.run("runs", "rm", *runs, "--yes", folder=tmp_path)
    assert ended.code == 0, ended.err
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["good"]


def strict(text: str) -> Any:
    """The JSON in a text, which has no number that JSON does not have."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)

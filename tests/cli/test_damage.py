"""One damaged file of a run folder: a sentence that names it, and no traceback.

`python bench/damage.py --cases 5000` runs more of the same cases.
"""

import shutil
from pathlib import Path

import pytest
from processes import Processes

from ictcli.runs.show import check_run


def test_every_file_that_is_written_once_is_checked(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    assert check_run(run).faults == {}
    for path in [path for path in run.rglob("*") if path.is_file() and path.name != ".lock"]:
        before, name = path.read_bytes(), path.relative_to(run)
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        assert {name.as_posix(), name.parent.as_posix()} & set(check_run(run).faults), name
        path.write_bytes(before)


@pytest.mark.parametrize(
    ("command", "file"),
    [
        (("runs", "ls", "."), "summary.json"),
        (("runs", "show", "run"), "environment.json"),
        (("eval", "run", "--bench", "chain", "--n", "1", "-k", "1", "--limit", "1"), "recipe.toml"),
        (("export", "run", "--out", "out"), "environment.json"),
        (("resume", "run"), "summary.json"),
    ],
)
def test_what_still_reads_but_was_altered_is_named(
    ictcli: Processes, trained: Path, tmp_path: Path, command: tuple[str, ...], file: str
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    path = tmp_path / "run" / file
    path.write_text(path.read_text().rstrip("\n") + "\n\n")
    ended = ictcli.done(*command)
    assert f"{file} is not what the run wrote" in ended.out + ended.err

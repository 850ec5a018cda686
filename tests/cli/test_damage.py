"""One damaged file of a run folder: a sentence that names it, and no traceback.

`python bench/damage.py --cases 5000` runs more of the same cases.
"""

import json
import os
import shutil
from pathlib import Path

import pytest
from processes import Ended, Processes, refusal

from ictcli.runs.manifest import checksum
from ictcli.runs.show import check_run


def test_every_file_that_is_written_once_is_checked(
    trained: tuple[Path, Ended], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained[0], run)
    assert check_run(run).faults == {}
    for path in [path for path in run.rglob("*") if path.is_file() and path.name != ".lock"]:
        before, name = path.read_bytes(), path.relative_to(run)
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        assert {name.as_posix(), name.parent.as_posix()} & set(check_run(run).faults), name
        path.write_bytes(before)


def test_a_checkpoint_whose_state_no_run_saves_is_damaged(
    ictcli: Processes, trained: tuple[Path, Ended], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained[0], run)
    path = max((run / "checkpoints").glob("step-*"))
    state = path / "state.json"
    state.write_text(state.read_text().replace('"wall_s": ', '"wall_s": -'))
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"]["state.json"] = checksum(state).to_json()
    (path / "manifest.json").write_text(json.dumps(manifest))
    ended = ictcli.run("runs", "check", "run", folder=tmp_path)
    assert ended.code == 1 and f"checkpoints/{path.name}" in ended.out
    (run / "summary.json").unlink()
    ended = ictcli.run("resume", "run", folder=tmp_path)
    assert ended.code == 0 and f"{path.name} is damaged (state.json is " in ended.err, ended.err


@pytest.mark.parametrize(
    ("command", "file"),
    [
        (("runs", "ls", "."), "summary.json"),
        (("runs", "show", "run"), "environment.json"),
        (("runs", "diff", "run", "run"), "eval/after.json"),
        (("inspect", "run", "--plain"), "recipe.toml"),
        (("eval", "run", "--bench", "chain", "--n", "1", "-k", "1", "--limit", "1"), "recipe.toml"),
        (("export", "run", "--out", "out"), "environment.json"),
        (("resume", "run"), "summary.json"),
    ],
)
def test_what_still_reads_but_was_altered_is_named(
    ictcli: Processes,
    trained: tuple[Path, Ended],
    tmp_path: Path,
    command: tuple[str, ...],
    file: str,
) -> None:
    shutil.copytree(trained[0], tmp_path / "run")
    path = tmp_path / "run" / file
    path.write_text(path.read_text().rstrip("\n") + "\n\n")
    ended = ictcli.run(*command, folder=tmp_path)
    assert ended.code == 0, ended.err
    assert f"{file} is not what the run wrote" in ended.out + ended.err


@pytest.mark.parametrize(
    ("command", "file"),
    [
        (("resume", "run"), "environment.json"),
        (("eval", "run", "--bench", "chain", "--limit", "1"), "model/*.json"),
        (("inspect", "run", "--plain"), "rollouts/*"),
    ],
)
def test_a_pipe_in_a_run_folder_is_refused_and_never_waited_for(
    ictcli: Processes,
    trained: tuple[Path, Ended],
    tmp_path: Path,
    command: tuple[str, ...],
    file: str,
) -> None:
    shutil.copytree(trained[0], tmp_path / "run")
    path = max((tmp_path / "run").glob(file))
    path.unlink()
    os.mkfifo(path)
    ended = ictcli.run(*command, folder=tmp_path)
    refusal(ended, 2)
    assert f"{path.relative_to(tmp_path)} is no plain file" in ended.err


@pytest.mark.parametrize("file", ["summary.json", "environment.json", "recipe.toml"])
@pytest.mark.parametrize("command", ["resume", "export"])
def test_what_cannot_be_read_is_refused_by_name(
    ictcli: Processes, trained: tuple[Path, Ended], tmp_path: Path, command: str, file: str
) -> None:
    shutil.copytree(trained[0], tmp_path / "run")
    (tmp_path / "run" / file).write_bytes(b"\x00\xff{[")
    more = ("--out", "out") if command == "export" else ()
    ended = ictcli.run(command, "run", *more, folder=tmp_path)
    assert file in ended.err and "Traceback" not in ended.err
    if ended.code:
        refusal(ended, ended.code)

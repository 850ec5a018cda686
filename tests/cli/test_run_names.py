"""The names that `ictcli runs ls` prints, as arguments of the other commands."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
from processes import Ended, Processes, refusal


@pytest.fixture
def here(trained: tuple[Path, Ended], tmp_path: Path) -> Path:
    """A folder to work in with runs/mine, and runs/group/other under a comparison's lock."""
    shutil.copytree(trained[0], tmp_path / "runs" / "mine")
    shutil.copytree(trained[0], tmp_path / "runs" / "group" / "other")
    (tmp_path / "runs" / "group" / ".lock").touch()
    return tmp_path


def test_every_command_takes_the_names_that_the_list_prints(ictcli: Processes, here: Path) -> None:
    rows = ictcli.run("runs", "ls", folder=here).out.splitlines()[1:]
    names = [row.split()[0] for row in rows]
    assert sorted(names) == ["group/other", "mine"]
    group = ictcli.run("runs", "ls", "group", folder=here).out
    assert [row.split()[0] for row in group.splitlines()[1:]] == ["group/other"]
    name = "group/other"
    for command in (
        ("runs", "show", name),
        ("runs", "diff", name, "mine"),
        ("runs", "check", name),
        ("resume", name, "--trust"),
        ("inspect", name, "--plain", "--trust"),
        ("export", name, "--trust", "--out", "out"),
        ("eval", name, "--trust", "--bench", "chain", "--limit", "1", "--n", "4"),
    ):
        ended = ictcli.run(*command, folder=here)
        assert ended.code == 0, (command, ended.err)
    shown = json.loads(ictcli.run("runs", "show", "mine", "--json", folder=here).out)
    assert shown["run"] == "runs/mine"


def test_a_name_that_begins_with_a_dash_is_typed_as_a_path(
    ictcli: Processes, trained: tuple[Path, Ended], tmp_path: Path
) -> None:
    shutil.copytree(trained[0], tmp_path / "-x")
    said = ictcli.run("resume", "./-x", folder=tmp_path).err
    lines = [line for line in said.splitlines() if " ictcli " in line]
    commands = [shlex.split(line[line.index(" ictcli ") + 8 :]) for line in lines]
    assert {command[0] for command in commands} >= {"resume", "inspect", "generate", "eval"}
    assert all("./-x" in command for command in commands)
    (inspect,) = (command for command in commands if command[0] == "inspect")
    ended = ictcli.run(*inspect, "--plain", "--trust", folder=tmp_path)
    assert ended.code == 0, ended.err


def test_a_path_that_exists_wins(ictcli: Processes, here: Path) -> None:
    (here / "mine").mkdir()
    told = refusal(ictcli.run("runs", "show", "mine", folder=here), 2)
    assert "mine is not a run folder." in told
    rows = ictcli.run("runs", "ls", folder=here).out
    assert "runs/mine" in rows  # its short name is another folder's


@pytest.mark.parametrize(
    "command",
    [
        ("runs", "show", "mien"),
        ("resume", "mien"),
        ("export", "mien"),
        ("eval", "mien", "--bench", "chain"),
    ],
)
def test_a_name_of_no_run_is_answered_with_the_nearest(
    ictcli: Processes, here: Path, command: tuple[str, ...]
) -> None:
    told = refusal(ictcli.run(*command, folder=here), 2)
    assert "mien, here or in runs/ (did you mean mine?). ictcli runs ls" in told

"""`ictcli runs ls`, `show` and `diff` of a run that was trained."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
from processes import Ended, Processes


def test_the_list_has_a_run_s_line(
    ictcli: Processes, trained: Path, training: tuple[Path, Ended]
) -> None:
    folder = trained.parent
    ended = ictcli.run("runs", "ls", folder)
    assert ended.code == 0
    head, *rows = ended.out.splitlines()
    assert head.split()[:3] == ["run", "state", "step"]
    (row,) = [row for row in rows if row.split()[0] == str(trained)]
    assert row.split()[1:4] == ["finished", "6/6", "chain"]
    (told,) = [one for one in ictcli.json("runs", "ls", folder) if one["run"] == str(trained)]
    summary = json.loads(training[1].out)
    assert told["after"] == summary["after"]["pass@1"]["value"]
    assert told["seconds"] == summary["wall_s"]


def test_a_run_is_shown_and_differs_from_itself_in_nothing(
    ictcli: Processes, trained: Path
) -> None:
    run = trained
    ended = ictcli.done("runs", "show", run)
    assert f" {run} --bench chain" in ended.err
    for told in (f"{run}: finished, step 6 of 6", "lr=0.003", "step-000006", "ictcli train"):
        assert told in ended.out
    found = ictcli.json("runs", "show", run)
    assert [one["label"] for one in found["evaluations"]] == ["before", "step-000003", "after"]
    assert [one["step"] for one in found["checkpoints"]] == [4, 6]
    files = [path for path in run.rglob("*") if path.is_file()]
    assert found["bytes"]["total"] == sum(path.stat().st_size for path in files)
    ended = ictcli.run("runs", "diff", run, run)
    assert "recipe: the same" in ended.out and "environment: the same" in ended.out
    assert "+0.000 [" in ended.out and "] *" not in ended.out


def test_what_is_no_run_is_refused(ictcli: Processes, trained: Path) -> None:
    assert "There is no folder runs" in ictcli.refused("runs", "ls")
    assert "takes two runs" in ictcli.refused("runs", "diff", trained)


@pytest.fixture
def here(trained: Path, tmp_path: Path) -> Path:
    """A folder to work in with runs/mine, and runs/group/other under a comparison's lock."""
    shutil.copytree(trained, tmp_path / "runs" / "mine")
    shutil.copytree(trained, tmp_path / "runs" / "group" / "other")
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
        ("inspect", name, "--plain", "--trust"),
        ("export", name, "--trust", "--out", "out"),
        ("resume", name, "--trust"),
        ("eval", name, "--trust", "--bench", "chain", "--limit", "1", "--n", "1"),
    ):
        ended = ictcli.run(*command, folder=here)
        assert ended.code == 0, (command, ended.err)
    shown = ictcli.json("runs", "show", "mine", folder=here)
    assert shown["run"] == "runs/mine"


def test_a_name_that_begins_with_a_dash_is_typed_as_a_path(
    ictcli: Processes, trained: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained, tmp_path / "-x")
    said = ictcli.run("resume", "./-x").err
    lines = [line for line in said.splitlines() if " ictcli " in line]
    commands = [shlex.split(line[line.index(" ictcli ") + 8 :]) for line in lines]
    assert {command[0] for command in commands} >= {"resume", "inspect", "generate", "eval"}
    assert all("./-x" in command for command in commands)
    (inspect,) = (command for command in commands if command[0] == "inspect")
    ictcli.done(*inspect, "--plain", "--trust")


def test_a_path_that_exists_wins(ictcli: Processes, here: Path) -> None:
    (here / "mine").mkdir()
    told = ictcli.refused("runs", "show", "mine", folder=here)
    assert "mine is not a run folder." in told
    rows = ictcli.run("runs", "ls", folder=here).out
    assert "runs/mine" in rows  # its short name is another folder's


def test_a_name_of_no_run_is_answered_with_the_nearest(ictcli: Processes, here: Path) -> None:
    for command in (("runs", "show", "mien"), ("eval", "mien", "--bench", "chain")):
        told = ictcli.refused(*command, folder=here)
        assert "mien, here or in runs/ (did you mean mine?). ictcli runs ls" in told


def test_a_run_without_a_final_model_is_not_evaluated(
    ictcli: Processes, trained: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained, tmp_path / "run", ignore=shutil.ignore_patterns("model"))
    words = (
        "The run run has no finished model yet. ictcli resume run, or take its last checkpoint: "
    )
    for command in (("eval", "run", "--bench", "chain"), ("export", "run")):
        told = ictcli.refused(*command)
        assert words + "--checkpoint 6" in told

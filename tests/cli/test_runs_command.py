"""`ictcli runs ls`, `show` and `diff` of a run that was trained."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
from processes import Ended, Processes


def test_the_list_has_a_run_s_line(ictcli: Processes, training: tuple[Path, Ended]) -> None:
    run, ended = training
    head, *rows = ictcli.done("runs", "ls", run.parent).out.splitlines()
    assert head.split()[:3] == ["run", "state", "step"]
    assert [row.split()[:4] for row in rows] == [[str(run), "finished", "6/6", "chain"]]
    (told,) = ictcli.json("runs", "ls", run.parent)
    summary = json.loads(ended.out)
    assert told["after"] == summary["after"]["pass@1"]["value"]
    assert told["seconds"] == summary["wall_s"]


def test_a_run_is_shown_and_does_not_differ_from_itself(ictcli: Processes, trained: Path) -> None:
    ended = ictcli.done("runs", "show", trained)
    assert f" {trained} --bench chain" in ended.err
    for told in (f"{trained}: finished, step 6 of 6", "lr=0.003", "step-000006", "ictcli train"):
        assert told in ended.out
    found = ictcli.json("runs", "show", trained)
    assert [one["label"] for one in found["evaluations"]] == ["before", "step-000003", "after"]
    assert [one["step"] for one in found["checkpoints"]] == [4, 6]
    files = [path for path in trained.rglob("*") if path.is_file()]
    assert found["bytes"]["total"] == sum(path.stat().st_size for path in files)
    ended = ictcli.run("runs", "diff", trained, trained)
    assert "recipe: the same" in ended.out and "environment: the same" in ended.out
    assert "+0.000 [" in ended.out and "] *" not in ended.out
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


def test_a_leading_dash_is_typed_as_path(ictcli: Processes, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "-x")
    said = ictcli.run("resume", "./-x").err
    lines = [line for line in said.splitlines() if " ictcli " in line]
    commands = [shlex.split(line[line.index(" ictcli ") + 8 :]) for line in lines]
    assert {command[0] for command in commands} >= {"resume", "inspect", "generate", "eval"}
    assert all("./-x" in command for command in commands)
    (inspect,) = (command for command in commands if command[0] == "inspect")
    ictcli.done(*inspect, "--plain", "--trust")


def test_a_path_wins_and_the_nearest_name_is_told(ictcli: Processes, here: Path) -> None:
    for command in (("runs", "show", "mien"), ("eval", "mien", "--bench", "chain")):
        told = ictcli.refused(*command, folder=here)
        assert "mien, here or in runs/ (did you mean mine?). ictcli runs ls" in told
    (here / "mine").mkdir()
    assert "mine is not a run folder." in ictcli.refused("runs", "show", "mine", folder=here)
    rows = ictcli.run("runs", "ls", folder=here).out
    assert "runs/mine" in rows  # its short name is another folder's


def test_no_final_model_no_evaluation(ictcli: Processes, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run", ignore=shutil.ignore_patterns("model"))
    words = "no finished model yet. ictcli resume run, or take its last checkpoint: --checkpoint 6"
    for command in (("eval", "run", "--bench", "chain"), ("export", "run")):
        assert f"The run run has {words}" in ictcli.refused(*command)

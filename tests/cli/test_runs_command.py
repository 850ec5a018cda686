"""`ictcli runs` of trained runs: `ls`, `show`, `diff`, `gc`; and hints that can be typed."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
from filelock import FileLock
from processes import Ended, Processes

from ictcli.files import locked
from ictcli.runs import Run


def test_the_list_has_a_run_s_line(ictcli: Processes, training: tuple[Path, Ended]) -> None:
    run, ended = training
    head, *rows = ictcli.done("runs", "ls", run.parent).out.splitlines()
    assert head.split()[:3] == ["run", "state", "step"]
    assert [row.split()[:3] for row in rows] == [[str(run), "finished", "6/6"]]
    (told,) = ictcli.json("runs", "ls", run.parent)
    summary = json.loads(ended.out)
    assert told["after"] == summary["after"]["pass@1"]["value"]
    assert told["seconds"] == summary["wall_s"]


def test_a_run_is_shown_and_does_not_differ_from_itself(ictcli: Processes, trained: Path) -> None:
    ended = ictcli.done("runs", "show", trained)
    assert f" {trained}\n" in ended.err
    for told in (f"{trained}: finished, step 6 of 6", "lr=0.003", "step-000006", "ictcli train"):
        assert told in ended.out
    found = ictcli.json("runs", "show", trained)
    assert [one["label"] for one in found["evaluations"]] == ["before", "step-000003", "after"]
    assert [one["step"] for one in found["checkpoints"]] == [4, 6]
    files = [path for path in trained.rglob("*") if path.is_file()]
    assert found["bytes"] == sum(path.stat().st_size for path in files)
    ended = ictcli.run("runs", "diff", trained, trained)
    assert "recipe: no differences" in ended.out and "environment: no differences" in ended.out
    assert "There is no folder runs" in ictcli.refused("runs", "ls")
    assert "needs two runs" in ictcli.refused("runs", "diff", trained)


@pytest.fixture
def here(trained: Path, tmp_path: Path) -> Path:
    """A folder to work in with runs/mine, and runs/group/other under a comparison's lock."""
    shutil.copytree(trained, tmp_path / "runs" / "mine")
    shutil.copytree(trained, tmp_path / "runs" / "group" / "other")
    (tmp_path / "runs" / "group" / ".lock").touch()
    return tmp_path


def test_every_command_takes_the_names_that_the_list_prints(ictcli: Processes, here: Path) -> None:
    rows = ictcli.run("runs", "ls").out.splitlines()[1:]
    names = [row.split()[0] for row in rows]
    assert sorted(names) == ["group/other", "mine"]
    group = ictcli.run("runs", "ls", "group").out
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
        ictcli.done(*command)
    shown = ictcli.json("runs", "show", "mine")
    assert shown["run"] == "runs/mine"


@pytest.fixture
def dashed(trained: Path, tmp_path: Path) -> str:
    """A run whose name has a dash before it and a space within, as it has to be typed."""
    shutil.copytree(trained, tmp_path / "-a b")
    return "./-a b"


def test_a_run_is_one_word_of_every_hint_and_no_option(ictcli: Processes, dashed: str) -> None:
    hints: dict[str, list[str]] = {}
    for command in (["resume"], ["export"], ["runs", "show"]):
        ended = ictcli.done(*command, dashed)
        told = [line for line in (ended.err + ended.out).splitlines() if " ictcli " in line]
        lines = [shlex.split(line[line.index(" ictcli ") + 8 :]) for line in told]
        words = [word for line in lines for word in line if "-a" in word]
        assert words and all(word == dashed or word.startswith(f"{dashed}/") for word in words)
        hints |= {line[0]: line for line in lines}
    assert hints.keys() >= {"resume", "inspect", "generate", "eval"}
    ictcli.done(*hints["inspect"], "--plain", "--trust")


def test_a_path_wins_and_the_nearest_name_is_told(ictcli: Processes, here: Path) -> None:
    for command in (("runs", "show", "mien"), ("eval", "mien", "--bench", "chain")):
        told = ictcli.refused(*command)
        assert "mien, here or in runs/ (did you mean mine?). ictcli runs ls" in told
    told = ictcli.refused("runs", "show", "runs/group")
    assert "group is not a run folder. ictcli runs ls runs/group lists the runs" in told
    (here / "mine").mkdir()
    assert "mine is not a run folder." in ictcli.refused("runs", "show", "mine")
    rows = ictcli.run("runs", "ls").out
    assert "runs/mine" in rows  # its short name is another folder's


def test_no_final_model_no_evaluation(ictcli: Processes, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run", ignore=shutil.ignore_patterns("model"))
    words = "no finished model yet. {}, or use its last checkpoint: --checkpoint 6"
    for command in (("eval", "run", "--bench", "chain"), ("export", "run")):
        assert words.format("ictcli resume run") in ictcli.refused(*command)
    with locked(tmp_path / "run", "run folder", "--run"):
        assert words.format("wait until it ends") in ictcli.refused("export", "run")


@pytest.fixture
def two(trained: Path, tmp_path: Path) -> Path:
    """A folder with two finished runs, whose checkpoints are of steps 4 and 6."""
    for name in ("one", "two"):
        shutil.copytree(trained, tmp_path / "runs" / name)
    return tmp_path / "runs"


def saved(run: Path) -> list[str]:
    return [path.name for path in Run(run).checkpoints()]


def test_old_checkpoints_go_and_what_a_resume_needs_stays(ictcli: Processes, two: Path) -> None:
    one, other = (two / name for name in ("one", "two"))
    assert saved(one) == ["step-000004", "step-000006"]
    (one / "summary.json").unlink()  # not finished
    metrics = (one / "metrics.jsonl").read_bytes()
    weights = one / "checkpoints" / "step-000006" / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # so that step 4 is what it needs
    found = ictcli.json("runs", "gc", "--dry-run", "--finished")
    assert list(found["checkpoints"]) == [f"runs/two/checkpoints/step-{n:06d}" for n in (4, 6)]
    assert found["bytes"] == sum(found["checkpoints"].values()) > 2 * len(whole)
    assert saved(other) == saved(one) == ["step-000004", "step-000006"]
    ended = ictcli.run("runs", "gc")
    assert ended.out.splitlines()[0].startswith("two: step-000004, ")
    assert "1 old checkpoint, " in ended.err and " freed" in ended.err
    assert (saved(one), saved(other)) == (["step-000004", "step-000006"], ["step-000006"])
    ictcli.done("resume", "one", "--trust")
    assert (one / "metrics.jsonl").read_bytes() == metrics
    with FileLock(other / ".lock"):
        ended = ictcli.run("runs", "gc", "two", "--finished")
        assert "runs/two is being trained and is skipped" in ended.err and saved(other)
    ictcli.done("runs", "gc", "two", "--finished")
    assert saved(other) == []
    told = ictcli.refused("resume", "two", "steps=9", "--trust")
    assert "runs/two has no checkpoint to continue from." in told


def test_the_best_checkpoint_stays(ictcli: Processes, two: Path) -> None:
    one = two / "one"
    summary = json.loads((one / "summary.json").read_text())
    best = {"best": {"metric": "reward", "step": 4, "value": 1.0}}
    (one / "summary.json").write_text(json.dumps(summary | best))
    assert "There are no old checkpoints." in ictcli.run("runs", "gc", "one").err
    ictcli.done("runs", "gc", "one", "--finished")
    assert saved(one) == ["step-000004"]

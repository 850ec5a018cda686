"""`ictcli runs rm` and `ictcli runs gc`."""

import json
import re
import shutil
from pathlib import Path

import pytest
from filelock import FileLock
from processes import Ended, Processes, refusal
from terminal import Terminal

from ictcli.runs import Run


@pytest.fixture
def here(trained: Path, tmp_path: Path) -> Path:
    """A folder to work in with two finished runs, whose checkpoints are of steps 4 and 6."""
    for name in ("one", "two"):
        shutil.copytree(trained, tmp_path / "runs" / name)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def saved(run: Path) -> list[str]:
    return [path.name for path in Run(run).checkpoints()]


def test_runs_are_removed_with_a_yes(ictcli: Processes, here: Path) -> None:
    ended = ictcli.run("runs", "rm", "one", folder=here)
    assert "Removing runs takes a yes. --yes says it" in refusal(
        Ended(ended.code, "", ended.err[ended.err.index("error:") :]), 2
    )
    assert names(here / "runs") == ["one", "two"]
    ended = ictcli.done("runs", "rm", "one", "runs/one", "--yes", folder=here)
    assert "runs/one: finished, step 6 of 6" in ended.err
    assert "removed 1 run, " in ended.err and names(here / "runs") == ["two"]


def test_a_terminal_is_asked(ictcli: Processes, here: Path) -> None:
    for answer, left in (("n\n", ["one", "two"]), ("y\n", ["two"])):
        with Terminal(ictcli, here, "runs", "rm", "one") as terminal:
            terminal.see(re.escape("Remove? [y/N]"))
            terminal.press(answer)
            assert terminal.end() == 0
        assert names(here / "runs") == left


def test_what_is_no_run_or_is_trained_now_is_not_removed(ictcli: Processes, here: Path) -> None:
    (here / "runs" / "mine").mkdir()
    (here / "runs" / "mine" / "thesis.md").write_text("years of work")
    (here / "runs" / "link").symlink_to(here / "runs" / "two")
    before = {path for path in here.rglob("*") if path.name != ".lock"}
    with FileLock(here / "runs" / "two" / ".lock"):
        for name, words in (
            ("mine", "runs/mine is not a run folder: it has no recipe.toml."),
            ("runs", "runs is not a run folder"),
            ("link", "runs/link is not a run folder: it is a link."),
            ("two", "runs/two is being trained now. stop it with Ctrl-C"),
            ("tow", "There is no run tow, here or in runs/ (did you mean two?)."),
        ):
            assert words in ictcli.refused("runs", "rm", "one", name, "--yes", folder=here)
    with FileLock(here / "runs" / ".lock"):
        told = ictcli.refused("runs", "rm", "one", "--yes", folder=here)
        assert "runs/one belongs to a comparison that runs now." in told
    assert {path for path in here.rglob("*") if path.name != ".lock"} == before


def test_old_checkpoints_go_and_what_a_resume_needs_stays(ictcli: Processes, here: Path) -> None:
    one, two = (here / "runs" / name for name in ("one", "two"))
    assert saved(one) == ["step-000004", "step-000006"]
    (one / "summary.json").unlink()  # not finished
    metrics = (one / "metrics.jsonl").read_bytes()
    weights = one / "checkpoints" / "step-000006" / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # so that step 4 is what it needs
    found = ictcli.json("runs", "gc", "--dry-run", "--finished", folder=here)
    assert list(found["checkpoints"]) == [f"runs/two/checkpoints/step-{n:06d}" for n in (4, 6)]
    assert found["bytes"] == sum(found["checkpoints"].values()) > 2 * len(whole)
    assert saved(two) == saved(one) == ["step-000004", "step-000006"]
    ended = ictcli.run("runs", "gc", folder=here)
    assert ended.out.splitlines()[0].startswith("two: step-000004, ")
    assert "1 old checkpoint, " in ended.err and " freed" in ended.err
    assert (saved(one), saved(two)) == (["step-000004", "step-000006"], ["step-000006"])
    ictcli.done("resume", "one", "--trust", folder=here)
    assert (one / "metrics.jsonl").read_bytes() == metrics
    with FileLock(two / ".lock"):
        ended = ictcli.run("runs", "gc", "two", "--finished", folder=here)
        assert "runs/two is being trained, and left alone" in ended.err and saved(two)
    ictcli.done("runs", "gc", "two", "--finished", folder=here)
    assert saved(two) == []
    told = ictcli.refused("resume", "two", "steps=9", "--trust", folder=here)
    assert "runs/two has no checkpoint to train on from." in told


def test_the_best_checkpoint_stays(ictcli: Processes, here: Path) -> None:
    one = here / "runs" / "one"
    best = {"format": 1, "checkpoint": "step-000004", "step": 4, "metric": "reward", "value": 1.0}
    (one / "checkpoints" / "best.json").write_text(json.dumps(best))
    assert "No checkpoint is old." in ictcli.run("runs", "gc", "one", folder=here).err
    ictcli.done("runs", "gc", "one", "--finished", folder=here)
    assert saved(one) == ["step-000004"]

"""A run that is killed and resumed ends as one that never was: the same bytes."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest
from processes import Ended, Processes, Running, Small, refusal, wait_until

from ictcli.runs import Run, checkpoints

STEPS = 10
SETTINGS = ("eval.every=4", "record.rollouts_every=2", "checkpoint.best=eval/pass@1")


class Runs:
    """Starts runs, each in a folder of its own."""

    def __init__(self, ictcli: Processes, overrides: tuple[str, ...], base: Path) -> None:
        self.ictcli, self.overrides, self.base = ictcli, overrides, base

    def start(self, name: str, *, steps: int = STEPS, restarts: int = 0) -> Running:
        return self.ictcli.start(
            *("train", "chain", *self.overrides, f"steps={steps}", "checkpoint.every=3"),
            *(("--run", name) if name else ()),
            folder=self.base,
            TORCHELASTIC_RESTART_COUNT=str(restarts),
        )

    def restart(self, name: str) -> Running:
        """As torchrun does where it loses a process."""
        return self.start(name, restarts=1)

    def resume(self, name: str) -> Running:
        return self.ictcli.start("resume", name, folder=self.base)

    def steps(self, name: str) -> int:
        """Steps that stand in metrics.jsonl."""
        return len(Run(self.base / name).metrics())

    def after_step(self, name: str, step: int) -> None:
        """Wait until that step stands in metrics.jsonl; step 0: until the folder is a run."""
        path = self.base / name / ("metrics.jsonl" if step else "recipe.toml")
        wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") >= step)

    def result(self, name: str) -> dict[str, bytes]:
        """All that a run leaves and no clock has touched."""
        folder = self.base / name
        found = {
            str(path.relative_to(folder)): path.read_bytes()
            for kind in ("metrics.jsonl", "recipe.toml", "**/*.safetensors", "eval/*.jsonl")
            for path in folder.glob(kind)
        }
        best = str(checkpoints.best_of(folder)).removeprefix(str(folder)).encode()
        summary = json.loads((folder / "summary.json").read_text())
        for clocked in ("wall_s", "cpu_s", "train_s", "peak_bytes", "model"):
            del summary[clocked]
        return {**found, "best": best, "summary.json": json.dumps(summary).encode()}


@pytest.fixture(scope="module")
def runs(processes: Processes, small: Small, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """With `whole`, a run that was never stopped."""
    made = Runs(processes, (*small, *SETTINGS), tmp_path_factory.mktemp("runs"))
    assert made.start("whole").wait().code == 0
    assert made.steps("whole") == STEPS
    updates = [line.updates or 0 for line in Run(made.base / "whole").metrics()]
    assert min(updates) > 0  # every step moves weights
    return made


def finish(running: Running) -> Ended:
    ended = running.wait()
    assert ended.code == 0, ended.err
    return ended


def test_killed_at_any_moment_and_resumed_it_ends_the_same(runs: Runs) -> None:
    chance = random.SystemRandom()
    moments = [chance.randrange(4), chance.randrange(4, 7)]  # before and after a checkpoint
    print("killed after steps", moments)
    running = runs.start("killed")
    for moment, again in zip(moments, (runs.resume, runs.restart), strict=True):
        runs.after_step("killed", moment)
        time.sleep(chance.uniform(0, 0.05))
        running.send(signal.SIGKILL)
        assert running.wait().code == -signal.SIGKILL
        for path in (runs.base / "killed").rglob("*"):  # as a clock leaves it that is set back
            then = chance.randrange(1 << 31)
            os.utime(path, (then, then))
        running = again("killed")
    finish(running)
    assert runs.result("killed") == runs.result("whole")


def test_a_launch_that_is_started_again_takes_no_other_run(runs: Runs) -> None:
    other = runs.start("whole", steps=STEPS + 1, restarts=1).wait()
    assert "exists already" in refusal(other, 2)
    assert "--run FOLDER" in refusal(runs.start("", restarts=1).wait(), 2)


def test_no_restart_passes_an_alarm(ictcli: Processes, small: Small, tmp_path: Path) -> None:
    for restarts, about in (0, "then resume the run"), (1, "no process was lost"):
        again = {"TORCHELASTIC_RESTART_COUNT": str(restarts)}
        collapses = ("lr=1", "steps=4", "alarms.collapse=stop", "--run", "run")
        told = ictcli.refused("train", "chain", *small, *collapses, **again, code=1)
        assert "Entropy collapse" in told and about in told
        assert len(Run(tmp_path / "run").metrics()) < 4


def test_ctrl_c_finishes_the_step_and_saves_it(runs: Runs) -> None:
    running = runs.start("interrupted")
    runs.after_step("interrupted", 2)
    running.send(signal.SIGINT)
    ended = running.wait()
    done = runs.steps("interrupted")
    assert 2 <= done < STEPS
    assert f"step {done} of {STEPS} is finished and saved. ictcli resume" in refusal(ended, 130)
    assert "Stopping after the current step" in ended.err
    assert Run(runs.base / "interrupted").checkpoints()[-1].name == f"step-{done:06d}"
    finish(runs.resume("interrupted"))
    whole, found = runs.result("whole"), runs.result("interrupted")
    for name in ("model/model.safetensors", "metrics.jsonl"):
        assert found[name] == whole[name]


def test_a_second_ctrl_c_ends_it_at_once(ictcli: Processes, small: Small, tmp_path: Path):
    running = ictcli.start("train", "chain", *small, "steps=4", "prompts=512", "--run", "run")
    wait_until(lambda: "before:" in running.err.read_text())
    running.send(signal.SIGINT)
    wait_until(lambda: "Stopping after" in running.err.read_text())
    running.send(signal.SIGINT)
    told = refusal(running.wait(), 130)
    assert told.startswith("Interrupted twice: the current step was not saved. ictcli resume ")
    assert Run(tmp_path / "run").metrics() == []

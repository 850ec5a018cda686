"""Processes that train a comparison's runs: why one ended, and what they leave to others."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from small_runs import small_design

from ictcli.compare.design import RunSpec, run_specs
from ictcli.compare.launch import Summaries, train_all, why_it_ended
from ictcli.recipe import Recipe, to_toml
from ictcli.runs.observer import Observer


def observer(recipe: Recipe, folder: Path, later: int) -> Observer:
    return Observer()


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        ('{"error": "The disk is gone. It was here before."}', 1, "The disk is gone. It was here"),
        ('{"error": "ValueError: it is 3"}', 1, "ValueError: it is 3"),
        ("", -9, "it was killed (SIGKILL), perhaps for want of memory"),
        ("{", -11, "it was killed (SIGSEGV)"),
        ("", 7, "it ended with code 7; "),
    ],
)
def test_why_a_process_ended(tmp_path: Path, failure: str, code: int, message: str) -> None:
    (tmp_path / "failure.json").write_text(failure)
    assert why_it_ended(tmp_path, code).startswith(message)


def test_a_failed_process_is_told_in_its_own_words_not_in_old_ones(tmp_path: Path) -> None:
    runs = run_specs(small_design(tmp_path, f"task={tmp_path / 'gone.jsonl'}"))[:2]
    for spec in runs:
        spec.folder.mkdir()
        (spec.folder / "recipe.toml").write_text(to_toml(spec.recipe))
        (spec.folder / "checkpoints").mkdir()
        (spec.folder / "failure.json").write_text('{"error": "an older failure."}')
    said: list[str] = []
    summaries, failed = train_all(runs, observer, said.append, jobs=2)
    told = [line for line in said if line.startswith("failed: ")]
    assert summaries == {} and len(failed) == 2 and [f"failed: {one}" for one in failed] == told
    assert all("gone.jsonl" in line and "older" not in line for line in failed), failed


def test_a_damaged_summary_is_told_and_a_run_in_use_is_waited_for(
    finished: tuple[list[RunSpec], Summaries],
) -> None:
    runs = finished[0]
    for spec in runs:
        (spec.folder / "recipe.toml").write_text("")
    (runs[1].folder / "summary.json").write_text("{")
    waited, held = threading.Event(), threading.Event()

    def hold() -> None:
        with FileLock(runs[3].folder / ".lock"):
            held.set()
            waited.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if text.startswith("waiting"):
            waited.set()

    summaries, failed = train_all(runs, observer, say)
    holder.join()
    assert len(summaries) == 5 and len(failed) == 1
    assert str(runs[1].folder / "summary.json") in failed[0]
    assert sum(str(runs[3].folder) in line for line in said if line.startswith("waiting")) == 1


PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], stdin=subprocess.PIPE)
time.sleep(60)
"""


CHILD = """
import sys, time
from pathlib import Path
from ictcli.cli.resume import end_with
from ictcli.train.launch import finish_step_on_interrupt
end_with(0)
out = Path(sys.argv[1])
with finish_step_on_interrupt(lambda text: None) as interrupted:
    out.write_text("0")
    for step in range(1, 1200):
        time.sleep(0.05)
        if interrupted():
            break
    out.with_name("saved").write_text(str(step))
"""


def test_a_child_saves_its_step_and_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, CHILD, out])
    wait_for(out.exists)
    parent.kill()
    parent.wait()
    killed = time.monotonic()
    wait_for((tmp_path / "saved").exists)
    assert time.monotonic() - killed < 5


def wait_for(done: Callable[[], bool], seconds: float = 60.0) -> None:
    limit = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < limit
        time.sleep(0.02)

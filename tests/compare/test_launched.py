"""Processes that train a comparison's runs: why one ended, and what they leave to others."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from small_runs import Finished

from ictcli.compare.design import Design, run_specs
from ictcli.compare.launch import share_beginning, train_all, why_it_ended
from ictcli.compare.variants import variants_of
from ictcli.runs import manifest


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        ('{"error": "The disk is gone. It was here before."}', 1, "The disk is gone. It was here"),
        ('{"error": "ValueError: it is 3"}', 1, "ValueError: it is 3"),
        ("", -9, "it was killed (SIGKILL), perhaps for lack of memory"),
        ("{", -11, "it was killed (SIGSEGV)"),
        ("", 7, "it ended with exit code 7; "),
    ],
)
def test_why_a_process_ended(tmp_path: Path, failure: str, code: int, message: str) -> None:
    (tmp_path / "failure.json").write_text(failure)
    assert why_it_ended(tmp_path, code).startswith(message)


def test_a_damaged_summary_is_told_and_a_run_in_use_is_waited_for(finished: Finished) -> None:
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

    summaries, failed = train_all(runs, say, lambda text: None)
    holder.join()
    assert len(summaries) == 5 and len(failed) == 1
    assert str(runs[1].folder / "summary.json") in failed[0]
    assert sum(str(runs[3].folder) in line for line in said if line.startswith("waiting")) == 1


def test_runs_that_begin_alike_share_what_was_evaluated_before_training(tmp_path: Path) -> None:
    """Of two at a time the second waits for the first's evaluation. One of another seed gets none.
    That they are those a run makes for itself, tests/cli/test_compare_command.py sees."""
    small = ("steps=1", "prompts=2", "group=2", "eval.problems=4", "max_tokens=16", "eval.n=2")
    variants = variants_of(("grpo", "random"), [])
    design = Design("chain-compare", (*small, "eval.k=[1]"), variants, 1, tmp_path)
    runs = run_specs(design)
    shown: list[str] = []
    summaries, failed = train_all(runs, lambda text: None, shown.append, jobs=2)
    assert not failed and not any(manifest.faults(folder) for folder in summaries)
    assert any("step 0/1" in line for line in shown) and shown[-1] == ""
    first, lent = (spec.folder for spec in runs)
    assert summaries[first].before == summaries[lent].before
    said = (lent / "log.txt").read_text() + (first / "log.txt").read_text()
    assert said.count("evaluating (before)") == 1
    one, other = (folder / "eval" / "before.jsonl" for folder in (first, lent))
    assert one.read_bytes() == other.read_bytes()
    other_seed = run_specs(replace(design, seeds=2))[-1]
    other_seed.folder.mkdir()
    share_beginning(other_seed, runs[:1])
    assert other_seed.seed != runs[0].seed and not list(other_seed.folder.iterdir())

"""Processes that train a comparison's runs: why one ended, and what they leave to others."""

import threading
from pathlib import Path

import pytest
from filelock import FileLock
from small_runs import Finished

from ictcli.compare.design import Design, run_specs
from ictcli.compare.launch import share_beginning, train_all, why_it_ended
from ictcli.compare.variants import variants_of
from ictcli.recipe import Recipe
from ictcli.runs import manifest
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

    summaries, failed = train_all(runs, observer, say)
    holder.join()
    assert len(summaries) == 5 and len(failed) == 1
    assert str(runs[1].folder / "summary.json") in failed[0]
    assert sum(str(runs[3].folder) in line for line in said if line.startswith("waiting")) == 1


def test_runs_that_begin_alike_share_what_was_evaluated_before_training(tmp_path: Path) -> None:
    """One of another seed gets none. That they are those it makes for itself, tests/cli/
    test_compare_command.py sees with --jobs."""
    small = ("steps=1", "prompts=2", "group=2", "eval.problems=4", "eval.temperatures=[0]")
    small += ("max_tokens=16", "eval.n=2", "eval.k=[1]")
    variants = variants_of(("grpo", "random"), [])
    runs = run_specs(Design("chain-compare", small, variants, 1, tmp_path))
    evaluated: set[Path] = set()

    class Watching(Observer):
        def __init__(self, folder: Path) -> None:
            self.folder = folder

        def evaluating(self, label: str, done: int, total: int) -> None:
            evaluated.update([self.folder] * (label == "before"))

    def watching(recipe: Recipe, folder: Path, later: int) -> Observer:
        return Watching(folder)

    summaries, failed = train_all(runs, watching, lambda text: None)
    assert not failed and not any(manifest.faults(folder) for folder in summaries)
    first, lent = (spec.folder for spec in runs)
    assert evaluated == {first} and summaries[first].before == summaries[lent].before
    for name in ("before.jsonl", "before@0.jsonl"):
        assert (lent / "eval" / name).read_bytes() == (first / "eval" / name).read_bytes()
    other = run_specs(Design("chain-compare", small, variants, 2, tmp_path))[-1]
    other.folder.mkdir()
    share_beginning(other, runs[:1])
    assert other.seed != runs[0].seed and not list(other.folder.iterdir())

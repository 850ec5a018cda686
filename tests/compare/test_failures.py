"""What becomes of a comparison of which a part is lost, damaged, or in use."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from made_results import summary

from ictcli.compare.attribution import Figures, attribution
from ictcli.compare.began import check_began
from ictcli.compare.claims import accuracy_claims, fork_claims
from ictcli.compare.design import Design, RunSpec, run_specs
from ictcli.compare.finished import Counts, FinishedRun, read_all
from ictcli.compare.gather import is_beginning
from ictcli.compare.launch import Summaries, train_all, why_it_ended
from ictcli.compare.notes import notes_of
from ictcli.compare.statistics import BEFORE, differences, estimate, scores_of
from ictcli.compare.variants import Variant, variants_of
from ictcli.errors import UserError
from ictcli.recipe import Recipe, to_toml
from ictcli.runs.observer import RunObserver
from ictcli.runs.read import read_environment
from ictcli.runs.records import Summary
from ictcli.tasks.prepare import described, heldout, prepare, task_of


def observer(recipe: Recipe, folder: Path, later: int) -> RunObserver:
    return RunObserver(recipe, folder)


def small_design(folder: Path, *overrides: str) -> Design:
    variants = variants_of(("ict", "grpo", "random"), [])
    return Design("chain-compare", ("steps=3", "eval.problems=2", *overrides), variants, 2, folder)


BEGAN: dict[str, object] = {"data": {"heldout": {"problems": 2, "sha256": ""}}}


def finish(spec: RunSpec) -> Summary:
    """The files of a finished run, as small as they can be; gives the summary."""
    evaluation = json.dumps({"n": 4, "problems": 2, "correct": [0, 4]})
    lines = [{"step": s, "sample_s": 1.0, "update_s": 1.0, "entropy": 1.0} for s in (1, 2, 3)]
    steps = "".join(json.dumps(line) + "\n" for line in lines)
    files = {
        "summary.json": summary().model_dump_json(),
        "environment.json": json.dumps(BEGAN),
        "eval/before.json": evaluation,
        "eval/after.json": evaluation,
        "metrics.jsonl": steps,
        "timings.jsonl": steps,
    }
    for name, text in files.items():
        path = spec.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return summary()


@pytest.fixture
def finished(tmp_path: Path) -> tuple[list[RunSpec], Summaries]:
    runs = run_specs(small_design(tmp_path))
    return runs, {spec.folder: finish(spec) for spec in runs}


NONE = Counts(n=1, problems=1, correct=[0])
FILES = (
    "metrics.jsonl",
    "timings.jsonl",
    "eval/after.json",
    "eval/before.json",
    "environment.json",
)


@pytest.mark.parametrize("name", FILES)
def test_a_finished_run_without_one_of_its_files_is_told_and_the_rest_goes_on(
    finished: tuple[list[RunSpec], Summaries], name: str
) -> None:
    runs, summaries = finished
    whole, none = read_all(runs, summaries)
    assert [one.spec for one in whole] == runs and none == []
    path = runs[2].folder / name
    text = path.read_text()
    torn = [text[: len(text) * place // 8] for place in range(8)]
    for damaged in (None, *torn, "[]", "null\n", "1\n2\n3\n", '{"step": 1}', "\x00" * 9):
        if damaged is None:
            path.unlink()
        else:
            path.write_text(damaged)
        done, told = read_all(runs, summaries)
        assert [one.spec for one in done] == [*runs[:2], *runs[3:]], damaged
        assert len(told) == 1 and str(path) in told[0] and "random, seed 0" in told[0]


def test_a_run_judged_by_other_problems_is_not_paired(
    finished: tuple[list[RunSpec], Summaries],
) -> None:
    runs, summaries = finished
    other = json.dumps({"n": 4, "problems": 3, "correct": [0, 4, 4]})
    (runs[4].folder / "eval" / "after.json").write_text(other)
    done, told = read_all(runs, summaries)
    assert len(done) == 5 and "after.json is damaged" in told[0]


def test_seeds_may_begin_with_problems_of_their_own(tmp_path: Path) -> None:
    """Those that are drawn as examples of the prompt are left out. Another data file in their place
    is refused."""
    lines = [{"prompt": f"{n} + 1", "answer": f"{n + 1}"} for n in range(40)]
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    runs = run_specs(small_design(tmp_path / "runs", f"task={data}", "prompt.shots=2"))
    for spec in runs:
        finish(spec)
        recipe, task = prepare(spec.recipe)
        began = {"data": described(recipe, task, heldout(recipe, task))}
        (spec.folder / "environment.json").write_text(json.dumps(began))
    first, last = (read_environment(runs[at].folder).data.train for at in (0, -1))
    assert first and last and first.sha256 != last.sha256
    check_began(runs)
    data.write_text(data.read_text().replace("39", "49"))
    with pytest.raises(UserError, match="The problems to train on changed since") as refused:
        check_began(runs)
    assert refused.value.hint.startswith("put that back; or rm -r ")
    for spec in runs:
        (spec.folder / "summary.json").unlink()
    check_began(runs)  # nothing is finished


def test_methods_without_a_common_seed_have_no_difference_and_the_rest_has() -> None:
    counts = np.random.default_rng(0).integers(0, 5, (4, 3, 32))
    counts[1, :2] = counts[2, 2] = -1  # ict has seed 2, grpo has 0 and 1, random has all
    labels = (BEFORE, "ict", "grpo", "random")
    scores = scores_of(dict(zip(labels, counts, strict=True)), 4, [1, 4])
    found = differences(scores, "grpo")
    assert all(set(mine) == {"random"} for mine in found.values())
    assert found["pass@1"]["random"].seeds == 2
    assert estimate(scores["pass@1"]["ict"]).seeds == 1
    names = [claim.name for claim in accuracy_claims(scores, "chain")]
    assert names and not any("grpo" in name for name in names)
    assert any("better than random" in name for name in names)
    recall = {"ict": [np.nan, 0.2], "random": [0.1, np.nan], "entropy20": [0.5, 0.6]}
    claims = fork_claims(recall)
    assert len(claims) == 1 and vars(claims[0].numbers)["value"] == pytest.approx(0.2 - 0.6)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    design = small_design(tmp_path)
    runs = run_specs(design)  # ict, grpo and random of seed 0, then of seed 1
    done = [FinishedRun(runs[place], summary(), NONE, NONE, [], []) for place in (0, 5)]
    counts = {"ict": np.array([[1], [-1]]), "random": np.array([[-1], [1]])}
    scores = scores_of({BEFORE: np.array([[1], [1]]), **counts}, 4, [1])
    notes = notes_of(design, done, scores, "ict", "grpo")
    assert notes[0] == "The baseline grpo has no finished run: differences are from ict."
    assert notes[1] == "grpo is left out: none of its runs finished."
    assert notes[2].startswith("ict and random have no seed that both finished")
    tuned = {"ict": {"lr=1": {}}, "random": {"lr=1": {}}, "grpo": {}}
    assert "none of its tuning runs" in notes_of(design, done, scores, "ict", "grpo", tuned)[1]
    other = notes_of(design, done, scores, "ict", "dapo")
    assert other[0].startswith("The baseline dapo is not among the methods")
    one = Design(design.source, design.overrides, (Variant("ict", "ict"),), 2, tmp_path)
    assert notes_of(one, done[:1], scores, "ict", "ict") == []


def test_runs_of_two_machines_are_told(finished: tuple[list[RunSpec], Summaries]) -> None:
    runs, summaries = finished
    made: dict[str, object] = BEGAN | {"platform": "one", "engine": {"threads": 1}}
    design = small_design(runs[0].folder.parent)
    counts = np.array([[0, 4], [0, 4]])
    scores = scores_of(dict.fromkeys((BEFORE, "ict", "grpo", "random"), counts), 4, [1])
    told: list[list[str]] = []
    changes: list[dict[str, object]] = [{}, {"platform": "another", "engine": {"threads": 2}}]
    changes.append({"platform": None, "engine": {}})  # as an older version leaves it
    for change in changes:
        for spec in runs:
            (spec.folder / "environment.json").write_text(
                json.dumps(made | (change if spec.seed else {}))
            )
        told.append(notes_of(design, read_all(runs, summaries)[0], scores, "grpo", "grpo"))
    assert told[0] == told[2] == [] and len(told[1]) == 1
    assert "not all made with the same platform and threads:" in told[1][0]


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


def test_a_control_of_other_first_steps_is_no_beginning_of_a_run(
    finished: tuple[list[RunSpec], Summaries],
) -> None:
    """As where tuning chose another learning rate for it."""
    done, _ = read_all(*finished)
    run = done[0]
    recipe = run.spec.recipe.model_copy(update={"warmup": 1})
    run = replace(run, spec=replace(run.spec, recipe=recipe))
    ends = {"method": {"name": "grpo"}, "steps": 1, "warmup": 1}
    for changed, alike in (({}, True), ({"lr": 1.0}, False), ({"steps": 2}, False)):
        control = replace(run.spec, recipe=recipe.model_copy(update={**ends, **changed}))
        assert is_beginning(replace(run, spec=control), run) is alike


def test_a_variant_dense_to_its_end_takes_no_step_from_another_s_attribution(
    finished: tuple[list[RunSpec], Summaries], tmp_path: Path
) -> None:
    """A damaged file is named only if its step was looked at."""
    done, _ = read_all(*finished)
    by_label = {run.label: [run] for run in done}
    assert list(by_label) == ["ict", "grpo", "random"]
    for run in done:
        (run.spec.folder / "rollouts").mkdir()
        (run.spec.folder / "rollouts" / "step-00003.safetensors").write_bytes(b"")
    dense = by_label["random"][0]
    recipe = dense.spec.recipe.model_copy(update={"warmup": 3})
    by_label["random"] = [replace(dense, spec=replace(dense.spec, recipe=recipe))]
    domain = task_of(dense.spec.recipe).domain
    _, damaged = attribution(by_label, domain, None)
    assert [Path(line.split()[0]).parents[1].name for line in damaged] == ["ict-s1", "grpo-s1"]


def test_variants_whose_rollouts_are_gone_are_told_where_others_have_theirs(
    finished: tuple[list[RunSpec], Summaries], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_label = {run.label: [run] for run in read_all(*finished)[0]}
    figures = Figures(np.ones((21, 4, 2, 2)) / 16, np.ones(21), np.array([1.0, 2.0, 1.0, 1.0]))
    domain = task_of(next(iter(by_label.values()))[0].spec.recipe).domain
    for kept, told in (
        ("ict", ["No step of grpo and random says where the gradient went."]),
        ("", []),
    ):
        monkeypatch.setattr(
            "ictcli.compare.attribution._of_run",
            lambda run, *rest, kept=kept: [figures] * (run.label == kept),
        )
        found, missing = attribution(by_label, domain, None)
        assert list(found) == [kept] * bool(kept) and missing == told

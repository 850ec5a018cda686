"""What becomes of a comparison of which a part is lost or damaged."""

import json
from pathlib import Path

import numpy as np
import pytest
from refusing import refused
from small_runs import BEGAN, Finished, finish, finished_run, small_design
from written import write

from ictcli.compare.design import Design, run_specs
from ictcli.compare.differences import Contrast
from ictcli.compare.finished import by_label, check_began, read_all
from ictcli.compare.notes import at_bounds, notes_of
from ictcli.compare.plan import ComparisonPlan
from ictcli.compare.statistics import BEFORE, scores_of
from ictcli.runs.read import read_environment
from ictcli.tasks.prepare import described, heldout, task_of

FILES = ("metrics.jsonl", "timings.jsonl", "eval/after.json", "eval/before.json")
OTHER = json.dumps({"n": 4, "problems": 3, "correct": [0, 4, 4]})
"""Of other problems, which are not paired."""


@pytest.mark.parametrize("name", [*FILES, "environment.json"])
def test_a_damaged_run_is_told_and_the_rest_goes_on(finished: Finished, name: str) -> None:
    runs, summaries = finished
    whole, none = read_all(runs, summaries)
    assert [one.spec for one in whole] == runs and none == []
    path = runs[2].folder / name
    text = path.read_text()
    torn = [text[: len(text) * place // 8] for place in range(8)]
    for damaged in (None, *torn, OTHER, "[]", "null\n", "1\n2\n3\n", '{"step": 1}', "\x00" * 9):
        if damaged is None:
            path.unlink()
        else:
            path.write_text(damaged)
        done, told = read_all(runs, summaries)
        assert [one.spec for one in done] == [*runs[:2], *runs[3:]], damaged
        assert len(told) == 1 and str(path) in told[0] and "random, seed 0" in told[0]


def test_seeds_may_begin_with_problems_of_their_own(tmp_path: Path) -> None:
    """Those that are drawn as examples of the prompt are left out. Another data file in their place
    is refused."""
    data = Path(write(tmp_path, [{"prompt": f"{n} + 1", "answer": n + 1} for n in range(40)]))
    runs = run_specs(small_design(tmp_path / "runs", f"task={data}", "prompt.shots=2"))
    for spec in runs:
        finish(spec)
        task = task_of(spec.recipe)
        began = {"data": described(task, heldout(spec.recipe, task))}
        (spec.folder / "environment.json").write_text(json.dumps(began))
    first, last = (read_environment(runs[at].folder).data.train for at in (0, -1))
    assert first and last and first.sha256 != last.sha256
    check_began(runs)
    data.write_text(data.read_text().replace("39", "49"))
    changed = "The problems to train on changed since"
    with refused(changed, hint="undo the change; or remove"):
        check_began(runs)
    for spec in runs:
        (spec.folder / "summary.json").unlink()
    check_began(runs)  # nothing is finished


def plan_of(design: Design, baseline: str) -> ComparisonPlan:
    contrasts = [Contrast("random", baseline)]
    return ComparisonPlan(design, baseline, contrasts, None, [], [], [])


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    design = small_design(tmp_path)
    runs = run_specs(design)  # ict, grpo and random of seed 0, then of seed 1
    done = [finished_run(runs[place]) for place in (0, 5)]
    counts = {"ict": np.array([[1], [-1]]), "random": np.array([[-1], [1]])}
    scores = scores_of({BEFORE: np.array([[1], [1]]), **counts}, 4, [1])
    finished, plan = by_label(design.variants, done), plan_of(design, "ict")
    notes = notes_of(plan, finished, scores, {})
    assert notes[0] == "grpo is left out: none of its runs finished."
    assert notes[1].startswith("random and ict have no seed that both finished")
    ended = {"lr=1": [{"pass@1": 0.5}]}
    tuned = {"ict": ended, "random": ended, "grpo": {"lr=1": [None]}}
    assert "none of its tuning runs" in notes_of(plan, finished, scores, tuned)[0]


def test_a_figure_at_its_ceiling_is_noted() -> None:
    scores = {"pass@1": {"ict": np.full((2, 4), 0.99), "grpo": np.full((2, 4), 0.5)}}
    (note,) = at_bounds(scores, ["ict", "grpo"])
    assert note.startswith("pass@1 of ict is at its ceiling")


def test_runs_of_two_machines_are_told(finished: Finished) -> None:
    runs, summaries = finished
    made: dict[str, object] = BEGAN | {"platform": "one", "engine": {"threads": 1}}
    design = small_design(runs[0].folder.parent)
    counts = np.array([[0, 4], [0, 4]])
    scores = scores_of(dict.fromkeys((BEFORE, "ict", "grpo", "random"), counts), 4, [1])
    told: list[list[str]] = []
    changes: list[dict[str, object]] = [{}, {"platform": "another", "engine": {"threads": 2}}]
    for change in changes:
        for spec in runs:
            (spec.folder / "environment.json").write_text(
                json.dumps(made | (change if spec.seed else {}))
            )
        done = by_label(design.variants, read_all(runs, summaries)[0])
        told.append(notes_of(plan_of(design, "grpo"), done, scores, {}))
    assert told[0] == [] and len(told[1]) == 1
    assert "not all have the same platform and engine.threads:" in told[1][0]

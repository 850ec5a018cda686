"""The loop, with the engine on a model of random weights."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chain_texts import make_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from observing import Make, Notes, go
from refusing import refused

from ictcli.errors import InterruptedRunError, RunFailedError, UserError
from ictcli.recipe import load_recipe
from ictcli.runs import Run
from ictcli.runs.records import Summary
from ictcli.tasks.prepare import task_of
from ictcli.train.launch import longest_prompt
from ictcli.types import Problem
from tests.cases import first

TWO = ("steps=2",)


@pytest.fixture(scope="module")
def whole(make: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    go(make(*TWO), folder)
    return folder


def test_a_run_stopped_between_temperatures_ends_alike(
    make: Make, whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError, match="the evaluation before training"):
        go(make(*TWO), run, Notes("before", after=8 + 2))
    assert {path.name for path in (run / "eval").iterdir()} == {"before.jsonl", "before@0.jsonl"}
    reached = go(make(*TWO), run).before
    for name in ("metrics.jsonl", "eval/before.jsonl", "eval/before@0.jsonl"):
        assert (run / name).read_bytes() == (whole / name).read_bytes(), name
    expected = Run(whole).read("summary.json", Summary)
    assert expected and expected.before == reached and "greedy" in reached


def test_an_interrupted_last_evaluation_loses_nothing(
    make: Make, whole: Path, tmp_path: Path
) -> None:
    run, notes, again = tmp_path / "run", Notes("after"), Notes()
    with pytest.raises(InterruptedRunError, match="the evaluation after training") as caught:
        go(make(*TWO), run, notes)
    assert caught.value.hint == f"ictcli resume {run}" and len(notes.steps) == 2
    resumed, expected = go(make(*TWO), run, again), Run(whole).read("summary.json", Summary)
    assert again.steps == [] and expected and resumed.after == expected.after


def test_an_older_run_without_temperatures_goes_on(make: Make, whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / "summary.json").unlink()
    path = folder / "eval" / "before.json"
    kept = json.loads(path.read_text())
    for name in ("temperatures", "greedy", "accuracy_readable"):
        del kept[name]
    path.write_text(json.dumps(kept))
    summary = go(make(*TWO), folder)
    assert list(summary.before) == ["pass@1", "pass@4"]


@pytest.mark.parametrize(
    ("reaction", "skipped", "told"), [("warn", 3, 3), ("stop", 1, 1), ("off", 3, 0)]
)
def test_steps_that_are_not_finite_are_met_as_the_recipe_says_and_three_in_a_row_end_the_run(
    make: Make, tmp_path: Path, reaction: str, skipped: int, told: int
) -> None:
    overrides = ("steps=9", "lr=1e15", "checkpoint.every=1", f"alarms.nonfinite={reaction}")
    run, notes = tmp_path / "run", Notes()
    with refused("not finite", hint="train again: lr=5e+14", kind=RunFailedError):
        go(make(*overrides), run, notes)
    finite = [step.metrics.finite for step in notes.steps]
    assert finite == [True] * (len(finite) - skipped) + [False] * skipped
    last = Run(run).checkpoints()[-1]
    assert last.name == f"step-{len(finite) - skipped:06d}"  # none of a step that was skipped
    assert sum("was skipped" in warning for warning in notes.warnings) == told
    lines = Run(run).metrics()
    assert [line.finite for line in lines] == finite and lines[-1].entropy is None


def test_a_run_interrupted_at_a_skipped_step_says_it_is_not_saved(
    make: Make, tmp_path: Path
) -> None:
    with pytest.raises(InterruptedRunError, match="step 2 of 5 is finished but not saved"):
        go(make("steps=5", "lr=1e15"), tmp_path / "run", Notes(2))
    assert Run(tmp_path / "run").checkpoints() == []


def test_a_step_is_saved_once_whatever_asks_for_it(make: Make, tmp_path: Path) -> None:
    """Due, interrupted, the best so far and at an alarm."""
    overrides = ("steps=4", "lr=1", "alarms.collapse=stop", "checkpoint.every=3")
    recipe, engine, task = make(*overrides, "checkpoint.best=reward")
    saved = list[str]()
    whole = engine.save

    def save(folder: Path) -> None:
        saved.append(folder.name.split(".")[1])
        whole(folder)

    setattr(engine, "save", save)  # noqa: B010
    with pytest.raises(RunFailedError, match="Entropy"):
        go((recipe, engine, task), tmp_path / "run", Notes(3))
    assert saved == ["step-000003"]


@pytest.mark.parametrize("reaction", first(["stop", "warn", "off"], 2))
def test_a_collapse_is_met_as_the_recipe_says(make: Make, tmp_path: Path, reaction: str) -> None:
    overrides = ("steps=3", "lr=1", "checkpoint.every=1", f"alarms.collapse={reaction}")
    run, notes, made = tmp_path / "run", Notes(), make(*overrides)
    if reaction == "stop":
        hint = "lr=0.5 often helps"
        with refused("Entropy collapse ", " at the first", hint=hint, kind=RunFailedError):
            go(made, run, notes)
        saved = Run(run).checkpoints()
        assert saved[-1].name == f"step-{len(notes.steps):06d}"
    else:
        assert go(made, run, notes).steps == 3
    assert any("Entropy collapse" in w for w in notes.warnings) == (reaction == "warn")


RECIPE = load_recipe("chain", ["max_tokens=8", "prompt.template=none"])
TASK = task_of(RECIPE)


@given(st.lists(st.integers(0, 90), min_size=1, max_size=12), st.sampled_from([40, 90, 98, 300]))
def test_the_longest_prompt_is_that_of_all_and_one_too_long_is_found(
    sizes: list[int], context: int
) -> None:
    """Without counting the tokens of each."""
    engine: Any = SimpleNamespace(tokenizer=make_tokenizer(), context=context)
    problems = [Problem(str(i), "1" * size, "1") for i, size in enumerate(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ictcli.train.launch.BATCH", 2)
        if not min(sizes) or max(sizes) + RECIPE.max_tokens > context:
            with pytest.raises(UserError):
                longest_prompt(RECIPE, engine, TASK, problems, TASK.domain)
        else:
            found = longest_prompt(RECIPE, engine, TASK, problems, TASK.domain)
            assert found == max(sizes)

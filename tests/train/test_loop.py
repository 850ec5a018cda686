"""The loop, with the engine on a model of random weights."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from observing import Notes

from ictcli.errors import InterruptedRunError, RunFailedError
from ictcli.runs import Run
from ictcli.runs.records import Best, Summary
from ictcli.tasks.prepare import task_of
from ictcli.train.loop import train
from tests.cases import first

Make = Callable[..., Any]


def start(
    make: Make, folder: Path, *overrides: str, stop: str | int | None = None, after: int = 0
) -> tuple[Notes, Callable[[], Summary]]:
    """A run that is not begun yet, and who will observe it; interrupted after a step or within an
    evaluation, `after` so many samples."""
    recipe, engine, _ = make(*overrides)
    notes = Notes()

    def interrupted() -> bool:
        return (notes.label == stop and notes.done >= after) or (
            notes.label == "" and len(notes.steps) == stop
        )

    def go() -> Summary:
        with Run.create(folder, recipe) as run:
            return train(run, recipe, task_of(recipe), engine, notes, interrupted)

    return notes, go


def test_an_observer_sees_every_step_and_evaluation(make: Make, tmp_path: Path) -> None:
    notes, go = start(make, tmp_path / "run", "steps=4", "eval.every=2")
    summary = go()
    assert [step.number for step in notes.steps] == [1, 2, 3, 4]
    assert notes.evaluations == ["before", "step-000002", "after"]
    lengths = [int(step.batch.rollouts.lengths.sum()) for step in notes.steps]
    assert summary.tokens_sampled == sum(lengths)
    kept = [int(step.kept.sum()) for step in notes.steps]
    assert summary.tokens_kept_share == pytest.approx(sum(kept) / sum(lengths))


def goes_on(make: Make, folder: Path) -> tuple[Summary, Notes]:
    """A run of two steps, resumed."""
    run, recipe = Run.open(folder)
    notes = Notes()
    with run:
        return train(run, recipe, task_of(recipe), make("steps=2")[1], notes), notes


@pytest.fixture(scope="module")
def whole(make: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps that nothing stopped."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    start(make, folder, "steps=2")[1]()
    return folder


def test_a_run_stopped_between_temperatures_ends_as_one_that_was_not(
    make: Make, whole: Path, tmp_path: Path
) -> None:
    """What was sampled at the first temperatures is sampled again, alike."""
    _, go = start(make, tmp_path / "run", "steps=2", stop="before", after=8 + 2)
    with pytest.raises(InterruptedRunError, match="the evaluation before training"):
        go()
    left = {path.name for path in (tmp_path / "run" / "eval").iterdir()}
    assert left == {"before.jsonl", "before@0.jsonl"}
    parts = goes_on(make, tmp_path / "run")[0].sharpening
    for name in ("metrics.jsonl", *(f"eval/before{at}.jsonl" for at in ("", "@0", "@0.3", "@0.7"))):
        assert (tmp_path / "run" / name).read_bytes() == (whole / name).read_bytes(), name
    expected = Run(whole).read("summary.json", Summary)
    assert expected and expected.sharpening == parts
    assert parts and parts.tried == (1.0, 0.0, 0.3, 0.7)


def test_an_evaluation_at_the_end_is_interrupted_without_a_loss(
    make: Make, whole: Path, tmp_path: Path
) -> None:
    notes, go = start(make, tmp_path / "run", "steps=2", stop="after")
    with pytest.raises(InterruptedRunError, match="the evaluation after training") as caught:
        go()
    assert caught.value.hint == f"ictcli resume {tmp_path / 'run'}" and len(notes.steps) == 2
    resumed, again = goes_on(make, tmp_path / "run")
    expected = Run(whole).read("summary.json", Summary)
    assert again.steps == [] and expected and resumed.after == expected.after


def test_a_run_of_a_version_without_temperatures_goes_on(
    make: Make, whole: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / "summary.json").unlink()
    path = folder / "eval" / "before.json"
    kept = json.loads(path.read_text())
    for name in ("temperatures", "greedy", "accuracy_readable"):
        del kept[name]
    path.write_text(json.dumps(kept))
    summary, _ = goes_on(make, folder)
    assert summary.sharpening is None and list(summary.before) == ["pass@1", "pass@4"]


def test_three_steps_in_a_row_that_are_not_finite_stop_the_run(make: Make, tmp_path: Path) -> None:
    notes, go = start(make, tmp_path / "run", "steps=9", "lr=1e30", "checkpoint.every=1")
    with pytest.raises(RunFailedError, match="3 steps in a row") as caught:
        go()
    finite = [step.metrics.finite for step in notes.steps]
    assert finite == [True] * (len(finite) - 3) + [False] * 3
    saved = Run(tmp_path / "run").checkpoints()
    assert saved[-1].name == f"step-{len(finite) - 3:06d}"  # none of a step that was skipped
    assert str(saved[-1]) in caught.value.message
    assert "smaller learning rate than lr=1e+30" in caught.value.hint
    assert len(notes.warnings) == 3
    lines = Run(tmp_path / "run").metrics()
    assert [line.finite for line in lines] == finite
    assert lines[-1].entropy is None


def test_an_interrupted_run_says_whether_its_step_was_saved(make: Make, tmp_path: Path) -> None:
    _, go = start(make, tmp_path / "good", "steps=5", stop=2)
    with pytest.raises(InterruptedRunError, match="step 2 of 5 is finished and saved"):
        go()
    assert Run(tmp_path / "good").checkpoints()[-1].name == "step-000002"
    _, go = start(make, tmp_path / "bad", "steps=5", "lr=1e30", stop=2)
    with pytest.raises(InterruptedRunError, match="step 2 of 5 is finished but not saved"):
        go()
    assert Run(tmp_path / "bad").checkpoints() == []


@pytest.mark.parametrize(("reaction", "skipped"), [("stop", 1), ("off", 3)])
def test_a_step_that_is_not_finite_is_met_as_the_recipe_says(
    make: Make, tmp_path: Path, reaction: str, skipped: int
) -> None:
    overrides = ("steps=9", "lr=1e30", f"alarms.nonfinite={reaction}")
    notes, go = start(make, tmp_path / "run", *overrides)
    with pytest.raises(RunFailedError, match="not finite"):
        go()
    finite = [step.metrics.finite for step in notes.steps]
    assert finite.count(False) == skipped
    told = [warning for warning in notes.warnings if "was skipped" in warning]
    assert len(told) == (skipped if reaction == "stop" else 0)


def test_a_step_is_saved_once_whatever_asks_for_it(make: Make, tmp_path: Path) -> None:
    """Due, interrupted, the best so far and at an alarm."""
    overrides = ("steps=4", "lr=1", "alarms.collapse=stop", "checkpoint.every=3")
    recipe, engine, task = make(*overrides, "checkpoint.best=reward")
    notes, saved = Notes(), list[str]()
    whole = engine.save

    def save(folder: Path) -> None:
        saved.append(folder.name.split(".")[1])
        whole(folder)

    setattr(engine, "save", save)  # noqa: B010
    with Run.create(tmp_path / "run", recipe) as run, pytest.raises(RunFailedError, match="Entrop"):
        train(run, recipe, task, engine, notes, lambda: len(notes.steps) == 3)
    assert saved == ["step-000003"]


def test_a_best_that_has_no_number_is_told_once(make: Make, tmp_path: Path) -> None:
    overrides = ("steps=3", "lr=1e-9", "checkpoint.every=1", "checkpoint.best=share_kept_positive")
    notes, go = start(make, tmp_path / "run", *overrides, "reward=integer")
    assert go().best == Best(metric="share_kept_positive", step=0, value=None)
    assert [w for w in notes.warnings if "checkpoint.best" in w] == [
        "checkpoint.best: step 1 has no share_kept_positive, and is not judged by it."
    ]


@pytest.mark.parametrize("reaction", first(["stop", "warn", "off"], 2))
def test_a_collapse_is_met_as_the_recipe_says(make: Make, tmp_path: Path, reaction: str) -> None:
    overrides = ("steps=3", "lr=1", "checkpoint.every=1", f"alarms.collapse={reaction}")
    notes, go = start(make, tmp_path / "run", *overrides)
    if reaction == "stop":
        with pytest.raises(RunFailedError, match=r"Entropy collapse: .* at the first") as caught:
            go()
        saved = Run(tmp_path / "run").checkpoints()
        assert str(saved[-1]) in caught.value.message
        assert saved[-1].name == f"step-{len(notes.steps):06d}"
        assert "set alarms.collapse to warn" in caught.value.hint
    else:
        assert go().steps == 3
    assert any("Entropy collapse" in w for w in notes.warnings) == (reaction == "warn")

"""The loop, with the engine on a model of random weights."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ictcli.errors import InterruptedRunError, RunFailedError
from ictcli.evaluation.record import Evaluation
from ictcli.runs import Run
from ictcli.runs.observer import Observer, Step
from ictcli.runs.records import Best, Summary
from ictcli.tasks.prepare import task_of
from ictcli.train.loop import train
from tests.cases import first

Make = Callable[..., Any]


class Notes(Observer):
    """An observer that writes down what it is told."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.evaluations: list[str] = []
        self.warnings: list[str] = []
        self.label = ""  # of the evaluation under way
        self.done = 0  # samples of it

    def evaluating(self, label: str, done: int, total: int) -> None:
        self.label, self.done = label, done

    def evaluated(self, label: str, evaluation: Evaluation) -> None:
        self.evaluations.append(label)
        self.label = ""

    def stepped(self, step: Step) -> None:
        self.steps.append(step)

    def warned(self, message: str) -> None:
        self.warnings.append(message)


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


def test_a_run_stopped_between_temperatures_ends_as_one_that_was_not(
    make: Make, tmp_path: Path
) -> None:
    """What was sampled at the first temperatures is sampled again, alike."""
    notes, go = start(make, tmp_path / "whole", "steps=2")
    go()
    notes, go = start(make, tmp_path / "stopped", "steps=2", stop="before", after=8 + 2)
    with pytest.raises(InterruptedRunError):
        go()
    left = {path.name for path in (tmp_path / "stopped" / "eval").iterdir()}
    assert left == {"before.jsonl", "before@0.jsonl"}
    run, recipe = Run.open(tmp_path / "stopped")
    with run:
        train(run, recipe, task_of(recipe), make("steps=2")[1], notes)
    for name in ("metrics.jsonl", *(f"eval/before{at}.jsonl" for at in ("", "@0", "@0.3", "@0.7"))):
        one, other = (tmp_path / each / name for each in ("whole", "stopped"))
        assert one.read_bytes() == other.read_bytes(), name
    summaries = [
        Run(tmp_path / each).read("summary.json", Summary) for each in ("whole", "stopped")
    ]
    one, other = (each.sharpening for each in summaries if each)
    assert one == other and one and one.tried == (1.0, 0.0, 0.3, 0.7)


def test_a_run_of_a_version_without_temperatures_goes_on(make: Make, tmp_path: Path) -> None:
    _, go = start(make, tmp_path / "run", "steps=2", stop=1)
    with pytest.raises(InterruptedRunError):
        go()
    path = tmp_path / "run" / "eval" / "before.json"
    kept = json.loads(path.read_text())
    for name in ("temperatures", "greedy", "accuracy_readable"):
        del kept[name]
    path.write_text(json.dumps(kept))
    run, recipe = Run.open(tmp_path / "run")
    with run:
        summary = train(run, recipe, task_of(recipe), make("steps=2")[1], Notes())
    assert summary.sharpening is None and list(summary.before) == ["pass@1", "pass@4"]


def test_without_a_signal_no_weight_moves(make: Make, tmp_path: Path) -> None:
    notes, go = start(make, tmp_path / "run", "steps=2", "reward=integer")
    go()
    assert all(step.metrics.updates == 0 and step.metrics.finite for step in notes.steps)
    assert notes.warnings == []


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


@pytest.mark.parametrize("label", first(["after", "before"]))
def test_an_evaluation_at_either_end_is_interrupted_without_a_loss(
    make: Make, tmp_path: Path, label: str
) -> None:
    notes, go = start(make, tmp_path / "run", "steps=2", stop=label)
    with pytest.raises(InterruptedRunError, match=f"the evaluation {label} training") as caught:
        go()
    assert caught.value.hint == f"ictcli resume {tmp_path / 'run'}"
    assert len(notes.steps) == (0 if label == "before" else 2)
    run, recipe = Run.open(tmp_path / "run")
    _, engine, _ = make("steps=2")
    again = Notes()
    with run:
        resumed = train(run, recipe, task_of(recipe), engine, again)
    assert len(again.steps) == 2 - len(notes.steps)
    _, whole = start(make, tmp_path / "whole", "steps=2")
    assert resumed.after == whole().after


@pytest.mark.parametrize(("reaction", "skipped"), first([("stop", 1), ("off", 3), ("warn", 3)], 2))
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
    assert len(told) == (0 if reaction == "off" else skipped)


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

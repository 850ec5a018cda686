"""The loop and its parts, with the engine on a model of random weights."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.algorithm.methods import METHODS, Choice, Options, Scored, register
from ictcli.engine import Engine, build_engine
from ictcli.errors import InterruptedRunError, RunFailedError
from ictcli.evaluation.record import Evaluation
from ictcli.recipe import Recipe, load_recipe
from ictcli.rewards import VERIFIERS, Verdict, register_verifier
from ictcli.runs import Run
from ictcli.runs.observer import Step
from ictcli.runs.records import Best, Summary
from ictcli.runs.rollouts import Batch
from ictcli.tasks import Task
from ictcli.tasks.prepare import task_of
from ictcli.train.loop import train
from ictcli.train.step import Updates, optimise, sample_batch, select

SMALL = ("prompts=4", "group=4", "max_tokens=16", "eval.problems=2", "warmup=0", "reward=even")


@pytest.fixture(scope="module", autouse=True)
def even() -> Any:
    """A verifier that half of all responses satisfy, so that groups have a signal."""
    register_verifier("even")(lambda r, gold: Verdict("wrong" if len(r) % 2 else "correct"))
    yield
    del VERIFIERS["even"]


@pytest.fixture
def make(tiny_model: Path) -> Callable[..., tuple[Recipe, Engine, Task]]:
    """A recipe with these overrides, a fresh engine for it, and its task."""

    def made(*overrides: str) -> tuple[Recipe, Engine, Task]:
        recipe = load_recipe("chain", [f"model={tiny_model}", *SMALL, *overrides])
        engine = build_engine(recipe.model, recipe.engine, recipe.optimizer)
        return recipe, engine, task_of(recipe)

    return made


Make = Callable[..., tuple[Recipe, Engine, Task]]


class Notes:
    """An observer that writes down what it is told."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.evaluations: list[str] = []
        self.warnings: list[str] = []
        self.label = ""  # of the evaluation under way

    def evaluating(self, label: str, done: int, total: int) -> None:
        self.label = label

    def evaluated(self, label: str, evaluation: Evaluation) -> None:
        self.evaluations.append(label)
        self.label = ""

    def stepped(self, step: Step) -> None:
        self.steps.append(step)

    def warned(self, message: str) -> None:
        self.warnings.append(message)


def one_step(make: Make, *overrides: str) -> tuple[Recipe, Batch, Updates]:
    recipe, engine, task = make(*overrides)
    batch = sample_batch(recipe, engine, task, 1)
    return recipe, batch, optimise(recipe, engine, batch, select(recipe, batch, 1), 1)


def test_one_update_a_batch_is_on_policy_exactly(make: Make) -> None:
    _, _, outcome = one_step(make)
    assert [report.stepped for report in outcome.reports] == [True]
    assert outcome.reports[0].ratio_gap == 0
    assert outcome.reports[0].clip_fraction == 0


def test_later_epochs_are_compared_with_the_first(make: Make) -> None:
    _, _, outcome = one_step(make, "update.epochs=3", "lr=0.003", "method=grpo")
    first, *later = outcome.reports
    assert len(later) == 2 and first.ratio_gap == 0
    for report in later:
        seen = report.logp != 0
        moved = np.abs(report.logp - first.logp)[seen].max()
        assert report.ratio_gap == pytest.approx(moved, rel=1e-5)
        assert report.ratio_gap > 1e-3


def test_mini_batches_are_compared_with_the_sampler(make: Make) -> None:
    recipe, batch, outcome = one_step(make, "update.minibatch=1", "lr=0.003", "method=grpo")
    assert len(outcome.reports) == 4
    for prompt, report in enumerate(outcome.reports):
        part = batch.rollouts.groups(prompt, prompt + 1)
        trained = report.logp != 0
        gap = np.abs(report.logp - part.logp)[trained]
        assert report.ratio_gap == pytest.approx(gap.max(), rel=1e-5, abs=1e-7)
        if prompt == 0:
            assert report.ratio_gap < 1e-4  # rounding alone: the weights are still the sampler's
        else:
            assert report.ratio_gap > 1e-3  # they have moved
    assert recipe.update.epochs == 1


def test_epochs_go_over_every_mini_batch_in_turn(make: Make) -> None:
    _, batch, outcome = one_step(make, "update.minibatch=3", "update.epochs=2", "method=grpo")
    shapes = [report.logp.shape[0] for report in outcome.reports]
    assert shapes == [12, 4, 12, 4]
    for early, late in ((0, 2), (1, 3)):
        reports = outcome.reports[early], outcome.reports[late]
        assert (reports[0].logp != 0).sum() == (reports[1].logp != 0).sum() > 0
    assert len(batch.rollouts) == 16


@pytest.mark.parametrize(("method", "total"), [("dapo", 1.0), ("grpo", 1.0), ("ict", None)])
def test_each_mini_batch_is_normalised_by_itself(
    make: Make, method: str, total: float | None
) -> None:
    recipe, engine, task = make("update.minibatch=3", f"method={method}", "record.uniqueness=true")
    batch = sample_batch(recipe, engine, task, 1)
    plan = select(recipe, batch, 1)
    for rows in (slice(0, 12), slice(12, 16)):
        kept, weights = plan.kept[rows], plan.weights[rows]
        whole = float(kept.any(axis=1).mean())  # a row without a kept token weighs nothing
        assert weights.sum() == pytest.approx(whole if total is None else total, rel=1e-5)
        assert ((weights > 0) == kept).all()


def test_selection_in_mini_batches_is_that_of_each_alone(make: Make) -> None:
    recipe, engine, task = make("update.minibatch=1", "method=entropy20")
    batch = sample_batch(recipe, engine, task, 1)
    kept = select(recipe, batch, 1).kept
    for prompt in range(4):
        rows = slice(prompt * 4, prompt * 4 + 4)
        tokens = int(batch.rollouts.lengths[rows].sum())
        assert kept[rows].sum() == int(np.ceil(0.2 * tokens - 1e-9))


def test_a_weight_multiplies_what_the_mean_gives_and_trains_nothing_where_it_is_zero(
    make: Make,
) -> None:
    recipe, engine, task = make("method=grpo")
    batch = sample_batch(recipe, engine, task, 1)
    factor = np.random.default_rng(3).choice([-2.0, 0.0, 0.5], batch.rollouts.tokens.shape)
    seen: list[Scored] = []

    def weigh(scored: Scored, options: Options) -> Choice:
        seen.append(scored)
        return Choice(scored.valid, weight=factor)

    register("a test")(weigh)
    try:
        weighed = select(recipe.model_copy(update={"method": {"name": "weigh"}}), batch, 1)
    finally:
        del METHODS["weigh"]
    plain = select(recipe, batch, 1).weights
    np.testing.assert_allclose(weighed.weights, plain * factor, rtol=1e-6)
    np.testing.assert_array_equal(weighed.kept, batch.rollouts.valid & (factor != 0))
    np.testing.assert_array_equal(seen[0].tokens, batch.rollouts.tokens)
    assert list(seen[0].texts) == batch.texts


def test_the_dense_warm_up_trains_every_token(make: Make) -> None:
    recipe, engine, task = make("warmup=2")
    batch = sample_batch(recipe, engine, task, 1)
    assert (select(recipe, batch, 2).kept == batch.rollouts.valid).all()
    assert select(recipe, batch, 3).kept.sum() < batch.rollouts.valid.sum() / 2


def test_a_batch_depends_on_weights_seed_and_step_alone(make: Make) -> None:
    recipe, engine, task = make()
    late = sample_batch(recipe, engine, task, 5)
    sample_batch(recipe, engine, task, 2)
    again = sample_batch(recipe, engine, task, 5)
    np.testing.assert_array_equal(late.rollouts.tokens, again.rollouts.tokens)
    assert late.problems == again.problems
    assert late.texts != sample_batch(recipe, engine, task, 6).texts


def test_only_the_wanted_statistics_are_taken(make: Make) -> None:
    for overrides, expected in (
        (("method=grpo",), ("entropy", "purity", "prob")),
        (("method=ict",), ("entropy", "purity", "prob", "uniqueness")),
        (("method=grpo", "record.uniqueness=true"), ("entropy", "purity", "prob", "uniqueness")),
    ):
        recipe, engine, task = make(*overrides)
        assert recipe.wanted_stats == expected
        assert set(sample_batch(recipe, engine, task, 1).rollouts.stats) == set(expected)


def start(
    make: Make, folder: Path, *overrides: str, stop: str | int | None = None
) -> tuple[Notes, Callable[[], Summary]]:
    """A run that is not begun yet, and who will observe it; interrupted behind a step or within an
    evaluation."""
    recipe, engine, _ = make(*overrides)
    notes = Notes()

    def interrupted() -> bool:
        return notes.label == stop or (notes.label == "" and len(notes.steps) == stop)

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


@pytest.mark.parametrize("label", ["before", "after"])
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


@pytest.mark.parametrize(("reaction", "skipped"), [("stop", 1), ("warn", 3), ("off", 3)])
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


@pytest.mark.parametrize("reaction", ["warn", "stop", "off"])
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

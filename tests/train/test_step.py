"""The parts of a step, with the engine on a model of random weights."""

from dataclasses import replace

import numpy as np
import pytest
from observing import Make

from ictcli.algorithm.methods import METHODS, Choice, Options, Scored, register
from ictcli.errors import RunFailedError
from ictcli.recipe import Recipe
from ictcli.rewards import Verdict
from ictcli.runs.rollouts import Batch
from ictcli.train.sample import sample_batch
from ictcli.train.step import measure, optimise, select
from ictcli.types import UpdateReport


def one_step(make: Make, *overrides: str) -> tuple[Recipe, Batch, list[UpdateReport]]:
    recipe, engine, task = make(*overrides)
    batch = sample_batch(recipe, engine, task, 1)
    return recipe, batch, optimise(recipe, engine, batch, select(recipe, batch, 1), 1)


def test_the_first_epoch_is_on_policy_and_later_ones_are_compared_with_it(make: Make) -> None:
    _, _, reports = one_step(make, "update.epochs=3", "lr=0.003", "method=grpo")
    first, *later = reports
    assert len(later) == 2 and first.stepped
    assert first.ratio_gap == first.clip_fraction == 0
    for report in later:
        seen = report.logp != 0
        moved = np.abs(report.logp - first.logp)[seen].max()
        assert report.ratio_gap == pytest.approx(moved, rel=1e-5)
        assert report.ratio_gap > 1e-3


def test_mini_batches_are_compared_with_the_sampler(make: Make) -> None:
    recipe, batch, reports = one_step(
        make, "update.minibatch=1", "lr=0.003", "method=grpo", "seed=2"
    )
    assert len(reports) == 4 and recipe.update.epochs == 1
    for prompt, report in enumerate(reports):
        part = batch.rollouts.groups(prompt, prompt + 1)
        gap = np.abs(report.logp - part.logp)[report.logp != 0].max()
        assert report.ratio_gap == pytest.approx(gap, rel=1e-5, abs=1e-7)
        # at first by rounding alone: the weights are still the sampler's
        assert report.ratio_gap < 1e-4 if prompt == 0 else report.ratio_gap > 1e-3


def test_figures_of_several_updates_are_means_over_their_tokens(make: Make) -> None:
    recipe, engine, task = make("update.minibatch=3", "update.epochs=2", "lr=0.01", "kl=0.01")
    engine.keep_reference()
    batch = sample_batch(recipe, engine, task, 1)
    selection = select(recipe, batch, 1)
    reports = optimise(recipe, engine, batch, selection, 1)
    tokens = [(report.logp != 0).sum() for report in reports]
    assert len(set(tokens)) > 1
    metrics = measure(recipe, 1, batch, selection, reports)
    for name in ("clip_fraction", "kl"):
        each = [getattr(report, name) for report in reports]
        assert getattr(metrics, name) == pytest.approx(np.average(each, weights=tokens))
        assert np.average(each, weights=tokens) != pytest.approx(np.mean(each))


@pytest.mark.parametrize(("method", "total"), [("dapo", 1.0), ("grpo", 1.0), ("ict", None)])
def test_each_mini_batch_is_normalised_alone(make: Make, method: str, total: float | None) -> None:
    recipe, engine, task = make("update.minibatch=3", f"method={method}", "record.uniqueness=true")
    batch = sample_batch(recipe, engine, task, 1)
    plan = select(recipe, batch, 1)
    for rows in (slice(0, 12), slice(12, 16)):
        kept, weights = plan.kept[rows], plan.weights[rows]
        whole = float(kept.any(axis=1).mean())  # a row without a kept token weighs nothing
        assert weights.sum() == pytest.approx(whole if total is None else total, rel=1e-5)
        assert ((weights > 0) == kept).all()


def test_a_weight_multiplies_the_mean_s_and_trains_nothing_where_it_is_zero(make: Make) -> None:
    recipe, engine, task = make("method=grpo")
    batch = sample_batch(recipe, engine, task, 1)
    factor = np.random.default_rng(3).choice([-2.0, 0.0, 0.5], batch.rollouts.tokens.shape)
    seen: list[Scored] = []

    def weigh(scored: Scored, options: Options) -> Choice:
        seen.append(scored)
        return Choice(scored.valid, weight=factor)

    def stray(scored: Scored, options: Options) -> Choice:
        return Choice(scored.valid[:1])

    try:
        for rule in (weigh, stray):
            register("a test")(rule)
        weighed = select(recipe.model_copy(update={"method": {"name": "weigh"}}), batch, 1)
        with pytest.raises(RunFailedError, match="stray returned no"):  # it would be broadcast
            select(recipe.model_copy(update={"method": {"name": "stray"}}), batch, 1)
    finally:
        for name in ("weigh", "stray"):
            METHODS.pop(name, None)
    plain = select(recipe, batch, 1).weights
    np.testing.assert_allclose(weighed.weights, plain * factor, rtol=1e-6)
    np.testing.assert_array_equal(weighed.kept, batch.rollouts.valid & (factor != 0))
    np.testing.assert_array_equal(seen[0].tokens, batch.rollouts.tokens)
    assert list(seen[0].texts) == batch.texts


@pytest.mark.parametrize(("method", "on"), [("gspo", "sequence"), ("cispo", "weight")])
def test_a_method_s_own_clip_stands_in_for_the_recipe_s(make: Make, method: str, on: str) -> None:
    """Held to the equations of both papers: contract/test_update.py."""
    recipe, batch, reports = one_step(
        make, f"method={method}", "method.high=0", "clip.high=0.4", "update.epochs=2", "lr=0.003"
    )
    (update,) = select(recipe, batch, 1).mini_batches
    assert (update.objective.clip_on, update.objective.eps_high) == (on, 0)
    assert recipe.objective.eps_high == 0.4
    first, second = reports
    assert first.clip_fraction == 0 < second.clip_fraction
    moved = (second.logp - first.logp)[first.logp != 0]
    assert on == "sequence" or second.clip_fraction == pytest.approx((moved > 0).mean())


def test_rft_trains_groups_that_are_all_right_and_nothing_that_is_wrong(make: Make) -> None:
    recipe, batch, reports = one_step(make, "method=rft", "seed=1", "update.epochs=2", "lr=0.003")
    np.testing.assert_array_equal(batch.advantage, batch.correct)
    kept = select(recipe, batch, 1).kept
    np.testing.assert_array_equal(kept, batch.rollouts.valid & batch.correct[:, None])
    assert 0 < kept.sum() < batch.rollouts.valid.sum()
    for report in reports:  # the loss is that of likelihood, in later epochs too
        assert report.loss == pytest.approx(-report.logp[kept].mean(), rel=1e-5)
    recipe, engine, task = make("method=rft", "reward.signal=format")
    assert sample_batch(recipe, engine, task, 1).has_signal.all()


def test_the_dense_warm_up_trains_every_token(make: Make) -> None:
    recipe, engine, task = make("warmup=2")
    batch = sample_batch(recipe, engine, task, 1)
    assert (select(recipe, batch, 2).kept == batch.rollouts.valid).all()
    assert select(recipe, batch, 3).kept.sum() < batch.rollouts.valid.sum() / 2


@pytest.mark.parametrize("control", ["permuted", "position", "mass"])
def test_a_control_trains_other_tokens_the_same_ones_at_each_go(make: Make, control: str) -> None:
    overrides = ("update.minibatch=2", "warmup=1", "method.keep=0.3")
    recipe, engine, task = make(*overrides, f"control={control}")
    batch = sample_batch(recipe, engine, task, 3)
    plain = recipe.model_copy(update={"control": "none"})
    found, method = select(recipe, batch, 3), select(plain, batch, 3)
    np.testing.assert_array_equal(found.weights, select(recipe, batch, 3).weights)
    for rows in (slice(0, 8), slice(8, 16)):  # each mini-batch by itself
        assert found.kept[rows].sum() == method.kept[rows].sum()
    assert (found.kept != method.kept).any()
    assert (found.weights != select(recipe, batch, 4).weights).any()
    np.testing.assert_array_equal(select(recipe, batch, 1).weights, select(plain, batch, 1).weights)


@pytest.mark.parametrize("signal", ["random", "format"])
def test_no_verdict_is_trained_under_a_control_of_the_reward(make: Make, signal: str) -> None:
    recipe, engine, task = make(f"reward.signal={signal}")
    batch = sample_batch(recipe, engine, task, 2)
    np.testing.assert_array_equal(batch.rewards, sample_batch(recipe, engine, task, 2).rewards)
    metrics = measure(recipe, 2, batch, select(recipe, batch, 2), [])
    assert metrics.value("correct") == batch.correct.mean() != batch.rewards.mean()
    turned = {"correct": "wrong", "wrong": "correct"}
    verdicts = [Verdict(turned[each.status], each.extracted) for each in batch.verdicts]  # type: ignore[arg-type]
    for name in ("stapo", "rft"):  # those that look at it
        each = recipe.model_copy(update={"method": {"name": name}})
        weights = select(each, replace(batch, verdicts=verdicts), 2).weights
        np.testing.assert_array_equal(weights, select(each, batch, 2).weights)

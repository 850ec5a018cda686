"""Laws of `sampling.redraw`: groups without signal give way to others, and all is counted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from observing import Make, Notes, go

from ictcli.errors import InterruptedRunError
from ictcli.rewards import VERIFIERS, register_verifier
from ictcli.train.sample import sample_batch


@pytest.fixture(autouse=True)
def rare() -> Any:
    """A verifier that few responses satisfy, so that many groups are all wrong."""
    register_verifier("rare")(lambda r, gold: sum(r.encode()) % 6 == 0)
    yield
    del VERIFIERS["rare"]


SMALL = ("reward=rare", "prompts=6", "group=3")


def test_groups_with_signal_stay_and_others_give_way(make: Make) -> None:
    recipe, engine, task = make(*SMALL, "sampling.redraw=30")
    batch = sample_batch(recipe, engine, task, 1)
    plain = sample_batch(make(*SMALL)[0], engine, task, 1)
    assert plain.first is None and len(plain.redrawn) == 0
    assert batch.first is not None and 0 < plain.has_signal.sum() < 6
    np.testing.assert_array_equal(batch.first.rollouts.tokens, plain.rollouts.tokens)
    assert batch.has_signal.all()
    width = plain.rollouts.tokens.shape[1]
    for place, had in enumerate(plain.has_signal):
        rows = slice(3 * place, 3 * place + 3)
        assert (batch.problems[place] == plain.problems[place]) == had
        if had:
            assert batch.texts[rows] == plain.texts[rows]
            found = batch.rollouts.tokens[rows][:, :width]
            np.testing.assert_array_equal(found[:, : found.shape[1]], plain.rollouts.tokens[rows])
    assert len(batch.redrawn) % 3 == 0
    assert batch.tokens_sampled == plain.rollouts.lengths.sum() + batch.redrawn.sum()


def test_each_row_belongs_to_its_problem(make: Make) -> None:
    recipe, engine, task = make(*SMALL, "sampling.redraw=2")
    batch = sample_batch(recipe, engine, task, 2)
    again = task.domain.judge(batch.problems, batch.texts)
    assert [v.status for v in again] == [v.status for v in batch.verdicts]
    scored = engine.score(batch.rollouts, ["entropy", "logp"])
    np.testing.assert_allclose(scored["logp"], batch.rollouts.logp, atol=1e-4)
    np.testing.assert_allclose(scored["entropy"], batch.rollouts.stats["entropy"], atol=1e-4)


def test_without_any_signal_the_batch_is_still_full_after_so_many_goes(make: Make) -> None:
    recipe, engine, task = make("reward.correct=0", "sampling.redraw=2", "group=2")
    batch = sample_batch(recipe, engine, task, 1)
    assert len(batch.problems) == 4 and not batch.has_signal.any()
    assert len(batch.redrawn) == 2 * 4 * 2


def test_a_resumed_run_is_the_whole_one_and_all_is_counted(make: Make, tmp_path: Path) -> None:
    overrides, notes = (*SMALL, "sampling.redraw=2", "steps=4", "eval.every=2", "lr=0.003"), Notes()
    whole, steps = go(make(*overrides), tmp_path / "whole", notes), notes.steps
    assert [step.number for step in steps] == [1, 2, 3, 4]
    assert notes.evaluations == ["before", "step-000002", "after"]
    with pytest.raises(InterruptedRunError):
        go(make(*overrides), tmp_path / "cut", Notes(2))
    resumed = go(make(*overrides), tmp_path / "cut")
    for name in ("metrics.jsonl", "checkpoints/step-000004/weights.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    lines = (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()
    redrawn = [json.loads(line)["redrawn"] for line in lines]
    assert redrawn == [len(step.batch.redrawn) for step in steps] and sum(redrawn) > 0
    for summary in (whole, resumed):
        assert summary.rollouts_sampled == 4 * 6 * 3 + sum(redrawn)
        assert summary.tokens_sampled == sum(step.batch.tokens_sampled for step in steps)
        kept = sum(int(step.kept.sum()) for step in steps) / summary.tokens_sampled
        assert summary.tokens_kept_share == pytest.approx(kept)
    for step in steps:  # metrics are of the step's own prompts
        first = step.batch.first or step.batch
        assert step.metrics.correct == pytest.approx(first.correct.mean())
        assert step.metrics.length == pytest.approx(first.rollouts.lengths.mean())
        assert step.metrics.groups_with_signal == pytest.approx(step.batch.has_signal.mean())

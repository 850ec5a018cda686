"""Laws of token statistics and log-probabilities, while decoding and by a pass, by definition."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ictcli.engine import Engine, score
from ictcli.errors import UserError
from ictcli.train import sample
from ictcli.types import FloatArray, Rollouts, Sampling
from tests.cases import first

from .conftest import GROUP, GROUP_STATS, PROMPTS, SAMPLING, WANTED, Make, made_up
from .oracle import Oracle, agreeing, js, kl, log_softmax
from .training import logp_of

LOOSE = {"wasserstein": 2e-4, "kl_from_mean": 3e-5, "kl_to_mean": 3e-5}
"""Absolute; Wasserstein sums V partial sums, the KLs weigh the smallest probabilities."""


def as_defined(found: Mapping[str, FloatArray], rollouts: Rollouts, oracle: Oracle) -> None:
    wanted = oracle.stats(rollouts)
    for name in WANTED:
        assert np.ptp(wanted[name][rollouts.valid]) > 0.05
        close = {"atol": LOOSE.get(name, 1e-5), "rtol": 1e-4, "err_msg": name}
        np.testing.assert_allclose(found[name], wanted[name], **close)


def test_statistics_are_as_defined_at_temperature_one(rollouts: Rollouts, oracle: Oracle) -> None:
    as_defined(rollouts.stats, rollouts, oracle)


@pytest.fixture(params=first([4, 10**6]))
def _room(
    request: pytest.FixtureRequest, tiny_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logits of so many tokens are held at once: some groups and contexts have more."""
    for name in ("HELD", "COMPARED"):
        monkeypatch.setattr(score, name, request.param * len(tiny_engine.tokenizer))


@pytest.mark.usefixtures("_room")
def test_a_pass_gives_the_same_as_decoding(tiny_engine: Engine, tiny_oracle: Oracle) -> None:
    rollouts = tiny_engine.generate(PROMPTS[:2], GROUP, SAMPLING, 7)
    found = tiny_engine.score(rollouts, WANTED)
    as_defined(found, rollouts, tiny_oracle)
    agree = agreeing(rollouts)
    assert all((found[name][agree] == 0).all() for name in GROUP_STATS)


def test_a_statistic_that_is_not_declared_is_refused(tiny_engine: Engine) -> None:
    for name in ("entropi", "min_p", "context:four", "entropy:2"):
        with pytest.raises(UserError, match=f"no token statistic '{name}'"):
            tiny_engine.generate(PROMPTS, GROUP, SAMPLING, 7, (name,))


def test_uniqueness_is_exactly_zero_where_the_group_agrees(rollouts: Rollouts) -> None:
    u, agree = rollouts.stats["uniqueness"], agreeing(rollouts)
    assert (u[agree] == 0).all()
    assert agree[:, 0].all() and agree[:, 1:].any()
    assert (u[rollouts.valid & ~agree] > 0).mean() > 0.95
    assert (u >= 0).all()
    assert (u <= np.log(2)).all()


def test_only_wanted_statistics_are_given(tiny_engine: Engine) -> None:
    without = tiny_engine.generate(PROMPTS, GROUP, SAMPLING, 7)
    assert dict(without.stats) == {}
    for wanted in [("entropy",), ("wasserstein", "prob")]:
        found = tiny_engine.generate(PROMPTS, GROUP, SAMPLING, 7, wanted)
        assert set(found.stats) == set(wanted)
        np.testing.assert_array_equal(found.tokens, without.tokens)


def test_logprobs_are_the_models_whatever_the_micro_batches(
    make_engine: Make, model: Path, oracle: Oracle
) -> None:
    """And whatever stands after the ends, also behind the longest row."""
    rollouts, engine = made_up(), make_engine(model)
    rollouts = replace(rollouts, lengths=np.minimum(rollouts.lengths, rollouts.tokens.shape[1] - 2))
    for at, tokens in ((1.0, 2048), (0.6, 1), (1.7, 40)):
        engine.budget.tokens = tokens
        found = logp_of(engine, rollouts, at)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, oracle.logp(rollouts, at), atol=1e-5, rtol=1e-6)


def test_logits_are_the_models_row_by_row(make_engine: Make, model: Path, oracle: Oracle) -> None:
    rollouts, engine = made_up(3), make_engine(model)
    for share, tokens in ((1.0, 2048), (0.1, 2048), (1.0, 1), (1.0, 40)):
        engine.budget.tokens = tokens
        where = rollouts.valid & (np.random.default_rng(1).random(rollouts.tokens.shape) < share)
        where[2] = False
        found = engine.logits(rollouts, where)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, oracle.logits(rollouts, where), atol=5e-5, rtol=1e-5)
        assert engine.logits(rollouts, np.zeros_like(where)).shape == (0, 18)


def before(row: np.ndarray, t: int, k: int) -> tuple[int, ...]:
    """The k tokens before position t, fewer near the beginning, which only beginnings have."""
    return (t if t < k else -1, *row[max(t - k, 0) : t].tolist())


def defined(rollouts: Rollouts, p: np.ndarray, k: int) -> np.ndarray:
    """u of each token from distributions p (B, T, V), one pair at a time."""
    u, G = np.zeros(rollouts.tokens.shape), rollouts.group
    for row, t in np.argwhere(rollouts.valid):
        mine = before(rollouts.tokens[row], t, k)
        like = [
            (other, s)
            for other in range(row // G * G, row // G * G + G)
            for s in range(rollouts.lengths[other])
            if before(rollouts.tokens[other], s, k) == mine
        ]
        prefixes = {tuple(rollouts.tokens[other, :s]) for other, s in like}
        if len(prefixes) > 1:
            u[row, t] = js(p[row, t], np.mean([p[place] for place in like], axis=0))
    return u


@pytest.mark.usefixtures("_room")
@pytest.mark.parametrize("k", [1, 2])
def test_context_uniqueness_is_as_defined(tiny_engine: Engine, tiny_oracle: Oracle, k: int) -> None:
    rollouts = tiny_engine.generate(PROMPTS[:2], 5, Sampling(30, 0.5, stop_ids=(17, 4)), 3)
    p = np.zeros((*rollouts.tokens.shape, len(tiny_oracle.row_logits(rollouts, 0)[0])))
    p[rollouts.valid] = np.exp(log_softmax(tiny_oracle.logits(rollouts, rollouts.valid)))
    name = f"context:{k}"
    u, wanted = tiny_engine.score(rollouts, (name,))[name], defined(rollouts, p, k)
    assert (wanted > 1e-3).any() and (wanted == 0).any()
    np.testing.assert_allclose(u, wanted, atol=1e-5)
    assert (u[wanted == 0] == 0).all() and u.max() <= np.log(2)


FOUR = 4
CORRECT = np.array([True, False, True, True, False, True, False, False])
SOLUTION = np.array([2, 0, 3, 0, -1, -1, -1, -1])


@pytest.mark.usefixtures("_room")
def test_solution_kl_is_its_definition(tiny_engine: Engine, tiny_oracle: Oracle) -> None:
    rollouts = tiny_engine.generate(PROMPTS[:2], FOUR, Sampling(9, 0.7, stop_ids=(17, 4)), 3)
    found = tiny_engine.score(rollouts, ("solution_kl",), solution=SOLUTION)["solution_kl"]
    wanted = np.zeros(rollouts.tokens.shape)
    for row in np.flatnonzero(SOLUTION >= 0).tolist():
        prompt, solution = rollouts.prompt_of(row), SOLUTION[row]
        read = (*prompt, *rollouts.tokens[solution, : rollouts.lengths[solution]].tolist())
        told = replace(rollouts, prompts=((*read, *prompt),), group=len(rollouts))
        for t in range(rollouts.lengths[row]):
            student, teacher = (
                np.exp(log_softmax(tiny_oracle.row_logits(each, row)[t]))
                for each in (rollouts, told)
            )
            wanted[row, t] = kl(teacher, student)
    assert (wanted > 1e-3).any()
    np.testing.assert_allclose(found, wanted, atol=3e-5, rtol=1e-3)


def test_solutions_are_drawn_from_the_other_correct_ones_of_groups_in_part_correct() -> None:
    drawn = np.array(
        [sample.other_correct(CORRECT, FOUR, np.random.default_rng(n)) for n in range(60)]
    )
    assert [set(column) for column in drawn.T] == [
        *({2, 3}, {0, 2, 3}, {0, 3}, {0, 2}),
        *([{-1}] * 4),
    ]
    everyone = np.ones(FOUR, dtype=bool)
    assert (sample.other_correct(everyone, FOUR, np.random.default_rng(0)) == -1).all()


def test_a_context_without_room_for_both_is_refused(tiny_engine: Engine) -> None:
    prompt = [[5] * 4]
    room = tiny_engine.context // 2 - 4
    sample.require_room(tiny_engine, prompt, room)
    with pytest.raises(UserError, match=f"context is {tiny_engine.context}") as caught:
        sample.require_room(tiny_engine, prompt, room + 1)
    assert caught.value.hint == f"max_tokens={room}"

"""Laws of token statistics and log-probabilities, while decoding and by a pass, by definition."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ictcli.engine import Engine, score
from ictcli.errors import UserError
from ictcli.types import FloatArray, Rollouts
from tests.cases import first

from .conftest import GROUP, GROUP_STATS, PROMPTS, SAMPLING, WANTED, Make, made_up
from .oracle import Oracle, agreeing
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
    for name in ("entropi", "entropy:2"):
        with pytest.raises(UserError, match=f"no token statistic '{name}'"):
            tiny_engine.generate(PROMPTS, GROUP, SAMPLING, 7, (name,))


def test_uniqueness_is_exactly_zero_where_the_group_agrees(rollouts: Rollouts) -> None:
    u, agree = rollouts.stats["uniqueness"], agreeing(rollouts)
    assert (u[agree] == 0).all()
    assert agree[:, 0].all() and agree[:, 1:].any()
    assert (u[rollouts.valid & ~agree] > 0).mean() > 0.95
    assert (u >= 0).all()
    assert (u <= np.log(2)).all()


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

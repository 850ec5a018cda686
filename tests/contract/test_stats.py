"""Laws of the token statistics: by definition, from one full forward pass a row."""

import numpy as np
import pytest

from ictcli.engine import Engine, score
from ictcli.errors import UserError
from ictcli.types import Rollouts, Sampling

from .conftest import GROUP, GROUP_STATS, PROMPTS, SAMPLING, WANTED
from .oracle import Oracle, agreeing

LOOSE = {"wasserstein": 2e-4, "kl_from_mean": 3e-5, "kl_to_mean": 3e-5}
"""Absolute; Wasserstein sums V partial sums, the KLs weigh the smallest probabilities."""


@pytest.mark.parametrize("name", WANTED)
def test_statistic_is_its_definition_at_temperature_one(
    rollouts: Rollouts, oracle: Oracle, name: str
) -> None:
    wanted = oracle.stats(rollouts)[name]
    assert np.ptp(wanted[rollouts.valid]) > 0.05
    np.testing.assert_allclose(rollouts.stats[name], wanted, atol=LOOSE.get(name, 1e-5), rtol=1e-4)


@pytest.mark.parametrize("room", [3, 10**6], ids=["piece by piece", "together"])
def test_a_pass_gives_the_same_as_decoding(
    tiny_engine: Engine, tiny_oracle: Oracle, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HELD", "COMPARED"):
        monkeypatch.setattr(score, name, room * len(tiny_engine.tokenizer))
    rollouts = tiny_engine.generate(PROMPTS, GROUP, SAMPLING, 7)
    found, wanted = tiny_engine.score(rollouts, WANTED), tiny_oracle.stats(rollouts)
    for name in WANTED:
        np.testing.assert_allclose(found[name], wanted[name], atol=LOOSE.get(name, 1e-5), rtol=1e-4)
    agree = agreeing(rollouts)
    assert all((found[name][agree] == 0).all() for name in GROUP_STATS)


def test_a_statistic_that_is_not_declared_is_refused(tiny_engine: Engine) -> None:
    for name in ("entropi", "min_p", "context:four", "entropy:2"):
        with pytest.raises(UserError, match=f"no token statistic '{name}'"):
            tiny_engine.generate(PROMPTS, GROUP, SAMPLING, 7, (name,))


def test_ended_rollouts_drop_out_of_the_mean(rollouts: Rollouts) -> None:
    """The rows the law above was checked on do end one after the other, and later ones differ."""
    running = rollouts.valid.reshape(len(PROMPTS), GROUP, -1).sum(axis=1)
    assert ((running > 1) & (running < GROUP)).any()
    apart = rollouts.valid & ~agreeing(rollouts)
    some_ended = np.repeat(running < GROUP, GROUP, axis=0)
    assert (rollouts.stats["uniqueness"][apart & some_ended] > 0).any()


def test_uniqueness_is_exactly_zero_where_the_group_agrees(rollouts: Rollouts) -> None:
    u, agree = rollouts.stats["uniqueness"], agreeing(rollouts)
    assert (u[agree] == 0).all()
    assert agree[:, 0].all()
    assert (u[rollouts.valid & ~agree] > 0).mean() > 0.95
    assert (u >= 0).all()
    assert (u <= np.log(2)).all()


def test_uniqueness_is_exactly_zero_on_shared_prefixes(tiny_engine: Engine) -> None:
    found = tiny_engine.generate(PROMPTS, 3, Sampling(10, 0.15), 2, ("uniqueness",))
    agree = agreeing(found)
    assert agree[:, 1:].any()
    assert not agree.all()
    assert (found.stats["uniqueness"][agree] == 0).all()


def test_uniqueness_is_exactly_zero_where_one_rollout_is_left(tiny_engine: Engine) -> None:
    found = tiny_engine.generate(PROMPTS, 2, SAMPLING, 4, ("uniqueness",))
    alone = found.valid & np.repeat(
        found.valid.reshape(-1, 2, found.valid.shape[1]).sum(1) == 1, 2, 0
    )
    assert alone.any()
    assert (found.stats["uniqueness"][alone] == 0).all()


def test_rows_of_greedy_groups_agree_throughout(tiny_engine: Engine) -> None:
    found = tiny_engine.generate(PROMPTS, 3, Sampling(8, 0.0), 0, GROUP_STATS)
    assert (found.stats["uniqueness"] == 0).all()


def test_only_wanted_statistics_are_given(tiny_engine: Engine) -> None:
    without = tiny_engine.generate(PROMPTS, GROUP, SAMPLING, 7)
    assert dict(without.stats) == {}
    for wanted in [("entropy",), ("wasserstein", "prob")]:
        found = tiny_engine.generate(PROMPTS, GROUP, SAMPLING, 7, wanted)
        assert set(found.stats) == set(wanted)
        np.testing.assert_array_equal(found.tokens, without.tokens)

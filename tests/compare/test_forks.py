"""What variants keep of the shared rollouts, and intervals of fork figures against the textbook's
ratio estimator (`bench/mechanism.py`)."""

import numpy as np
import pytest
from mechanism import over_problems

from ictcli.algorithm.weights import group_advantage
from ictcli.compare.shared_rollouts import PROBLEMS, kept_by
from ictcli.recipe import load_recipe
from ictcli.rewards import Verdict
from ictcli.runs.rollouts import Batch
from ictcli.types import Rollouts


def test_the_interval_is_that_of_the_ratio_estimator() -> None:
    """Cochran 1977, 6.4: the variance of R = sum h / sum f is sum (h - R f)^2 / (sum f)^2, up to
    n / (n - 1). Problems whose tokens are alike widen it, which a binomial would not see."""
    rng = np.random.default_rng(0)
    forks = rng.integers(5, 60, 400).astype(float)
    hits = rng.binomial(forks.astype(int), rng.beta(2, 6, 400)).astype(float)
    R = hits.sum() / forks.sum()
    half = 1.96 * np.sqrt(((hits - R * forks) ** 2).sum() * 400 / 399) / forks.sum()
    found = over_problems(hits, forks)
    assert found == pytest.approx((R - half, R + half), rel=0.03)
    binomial = 1.96 * np.sqrt(R * (1 - R) / forks.sum())
    assert found is not None and found[1] - found[0] > 3 * binomial


@pytest.mark.parametrize("method", ["gmts", "clip_cov", "maxrl"])
def test_each_variant_chooses_by_its_own_advantages(method: str) -> None:
    """Whichever variant the shared rollouts were sampled for, with the deviation or without."""
    rng = np.random.default_rng(0)
    B, T, group = PROBLEMS * 4, 5, 4
    stats = {name: rng.random((B, T), np.float32) for name in ("entropy", "purity", "prob")}
    rollouts = Rollouts(
        prompts=((1,),) * PROBLEMS,
        group=group,
        tokens=rng.integers(0, 9, (B, T)),
        lengths=np.full(B, T),
        finished=np.ones(B, dtype=bool),
        logp=-9 * rng.random((B, T), np.float32),
        stats=stats,
    )
    rewards = rng.integers(0, 2, B).astype(float)
    verdicts = [Verdict("correct" if reward else "wrong") for reward in rewards]
    recipe = load_recipe("chain-compare", [f"method={method}", f"group={group}"])
    scaled, plain = (
        Batch(
            [], rollouts, [""] * B, verdicts, rewards, group_advantage(rewards, group, scale=scale)
        )
        for scale in (True, False)
    )
    assert not np.array_equal(scaled.advantage, plain.advantage)
    np.testing.assert_array_equal(kept_by(recipe, scaled), kept_by(recipe, plain))

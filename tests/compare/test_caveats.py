"""Runs that crashed: which are, what a comparison without them says, and that none is made up."""

import numpy as np
import pytest
from made_results import accuracy_claims
from worlds import World

from ictcli.compare.notes import fell, of_crashes, without
from ictcli.compare.statistics import Scores, scores_of


def crashing(rng: np.random.Generator, crashes: list[int], S: int = 5, N: int = 128) -> Scores:
    """ict and grpo, alike but for the runs of ict that crash."""
    counts = World().counts(rng, 1, S, N, [0.0, 0.0])[0]
    counts[0, crashes] = rng.binomial(8, 0.02, (len(crashes), N))
    return scores_of(dict(zip(("ict", "grpo"), counts, strict=True)), 8, [1, 4])


def curve(*shares: float, steps: int = 100, rollouts: int = 64) -> np.ndarray:
    """A curve through the shares, as so many rollouts a step show it."""
    rng = np.random.default_rng(0)
    truth = np.interp(np.linspace(0, 1, steps), np.linspace(0, 1, len(shares)), shares)
    return rng.binomial(rollouts, truth) / rollouts


@pytest.mark.parametrize(
    ("seen", "crashed"),
    [
        (curve(0.2, 0.8, 0.8, 0.05, 0.05), True),
        (curve(0.2, 0.4, 0.75, 0.02), True),
        (curve(0.3, 0.01, 0.0), True),  # at once
        (curve(0.2, 0.8, 0.7, 0.6), False),  # a decline is none
        (curve(0.1, 0.1, 0.1), False),  # it never learnt
        (curve(0.02, 0.02, 0.01), False),  # chance
        (curve(0.2, 0.8, 0.02, 0.8), False),  # it recovered
        (curve(0.2, 0.9), False),
        (curve(0.8, 0.0, steps=19), False),  # too few steps to show it
        (np.full(100, np.nan), False),
    ],
)
def test_a_run_crashed_by_its_own_curve(seen: np.ndarray, crashed: bool) -> None:
    assert fell(seen) == crashed


@pytest.mark.parametrize(("steps", "rollouts"), [(20, 4), (60, 8), (200, 16)])
def test_the_chance_of_few_rollouts_is_no_crash(steps: int, rollouts: int) -> None:
    rng = np.random.default_rng(0)
    chance = np.linspace(0.1, 0.4, steps) + np.zeros((300, 1))
    assert sum(map(fell, rng.binomial(rollouts, chance) / rollouts)) <= 3


def test_the_others_are_compared_without_them() -> None:
    held = without(crashing(np.random.default_rng(1), [3]), {"ict": [3]})["pass@1"]
    assert np.isnan(held["ict"]).all(axis=1).tolist() == [False, False, False, True, False]
    assert not np.isnan(held["grpo"]).any()


def test_a_mixture_is_named_in_a_note_and_beside_its_claims() -> None:
    scores = crashing(np.random.default_rng(2), [1])
    crashed = {"ict": [1]}
    (note,) = of_crashes(crashed, [7, 8, 9, 10, 11])
    assert note.startswith("The run of seed 8 of ict")
    claims = accuracy_claims(scores, crashed=crashed).values()
    assert claims and all("mixture: 1 run of ict crashed" in claim.caveats for claim in claims)

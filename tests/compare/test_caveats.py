"""Runs that crashed, and that none is made up."""

import numpy as np
import pytest

from ictcli.compare.notes import at_bounds, fell, of_crashes


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


def test_a_run_that_crashed_and_a_ceiling_are_named_in_notes() -> None:
    (note,) = of_crashes({"ict": [1]}, [7, 8, 9, 10, 11])
    assert note.startswith("The run of seed 8 of ict")
    scores = {"pass@1": {"ict": np.full((2, 4), 0.99), "grpo": np.full((2, 4), 0.5)}}
    (near,) = at_bounds(scores, ["ict", "grpo"])
    assert near.startswith("pass@1 of ict is at its ceiling")

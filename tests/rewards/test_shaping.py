"""The reward of a response from its verdict and its length."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ictcli.recipe.data import RewardSettings
from ictcli.rewards import Verdict
from ictcli.rewards.shaping import control_reward, overlong, shaped

VERDICTS = [
    Verdict("correct", "1"),
    Verdict("wrong", "2"),
    Verdict("unparsed"),
    Verdict("timeout", "9^9"),
    Verdict("wrong", score=0.25),
]
LENGTHS = np.array([10, 50, 90, 100, 95])


def rewards(**weights: float | int) -> list[float]:
    return shaped(VERDICTS, LENGTHS, 100, RewardSettings.model_validate(weights)).tolist()


def test_each_part_has_its_weight_and_they_add_up() -> None:
    assert rewards() == [1.0, 0.0, 0.0, 0.0, 0.25]
    assert rewards(correct=2.0) == [2.0, 0.0, 0.0, 0.0, 0.5]
    assert rewards(correct=0.0, format=0.5) == [0.5, 0.5, 0.0, 0.5, 0.5]
    assert rewards(correct=0.0, length=0.1) == pytest.approx([-0.01, -0.05, -0.09, -0.1, -0.095])
    found = rewards(correct=0.0, overlong=1.0, overlong_buffer=20)
    assert found == pytest.approx([0.0, 0.0, -0.5, -1.0, -0.75])
    assert rewards(correct=0.0, overlong=1.0) == found  # a fifth of max_tokens
    together = np.sum([rewards(correct=0.0, format=0.5), found, rewards()], axis=0)
    assert rewards(format=0.5, overlong=1.0) == pytest.approx(together)


@given(st.lists(st.integers(1, 300), min_size=1), st.integers(1, 300), st.integers(1, 300))
def test_overlong_falls_from_0_to_minus_1_and_never_rises(
    lengths: list[int], most: int, buffer: int
) -> None:
    found = overlong(np.sort(lengths), most, buffer)
    assert ((found >= -1) & (found <= 0)).all() and (np.diff(found) <= 0).all()
    assert overlong(np.array([most, most - buffer]), most, buffer).tolist() == [-1.0, 0.0]


def test_controls_of_the_reward_heed_no_verdict() -> None:
    right = [Verdict("correct", verdict.extracted) for verdict in VERDICTS * 400]
    drawn = control_reward("random", right, np.random.default_rng(0))
    again = control_reward("random", VERDICTS * 400, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, again)
    assert set(drawn) == {0, 1} and abs(drawn.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(drawn))
    read = control_reward("format", VERDICTS, np.random.default_rng(0))
    assert read.tolist() == rewards(correct=0.0, format=1.0)

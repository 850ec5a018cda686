"""Advantages of a group, and the weights of kept tokens, against plain loops."""

import statistics

import numpy as np
import pytest
from drawn import Ragged, percents, ragged
from hypothesis import given
from hypothesis import strategies as st

from ictcli.algorithm.selection import top_share
from ictcli.algorithm.weights import Normalisation, group_advantage, normalise

rewards = st.floats(-10, 10, allow_subnormal=False)
grouped = st.integers(2, 8).flatmap(
    lambda G: st.lists(st.lists(rewards, min_size=G, max_size=G), min_size=1, max_size=5)
)


@given(grouped, st.booleans())
def test_advantage_is_the_deviation_over_the_groups_standard_deviation(
    groups: list[list[float]], scale: bool
) -> None:
    expected: list[float] = []
    for group in groups:
        middle, spread = statistics.fmean(group), statistics.pstdev(group)
        expected += [(r - middle) / (spread + 1e-6 if scale else 1) for r in group]
    found = group_advantage(np.array(groups).reshape(-1), len(groups[0]), scale=scale)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


@given(rewards, st.integers(2, 9), st.booleans())
def test_advantage_is_exactly_zero_where_all_rewards_are_equal(
    reward: float, group: int, scale: bool
) -> None:
    same = np.full(group, reward)
    other = np.arange(group, dtype=np.float64)
    found = group_advantage(np.concatenate([same, other]), group, scale=scale)
    assert (found[:group] == 0).all()
    assert (found[group:] != 0).any()


NORMALISATIONS: tuple[Normalisation, ...] = ("sequence", "kept", "tokens", "constant")
MAX_TOKENS = 64


@pytest.mark.parametrize("name", NORMALISATIONS)
@given(rows=ragged(), percent=percents, more=st.integers(0, 9))
def test_a_weight_is_its_definition_whatever_the_padding(
    name: Normalisation, rows: Ragged, percent: int, more: int
) -> None:
    """A row whose scores are all 0 keeps nothing, weighs nothing, and counts in B."""
    kept = top_share(rows.score, rows.valid, percent / 100)
    B, expected = len(kept), np.zeros(kept.shape)
    for i, t in np.argwhere(kept):
        expected[i, t] = {
            "sequence": 1 / (B * kept[i].sum()),
            "kept": 1 / kept.sum(),
            "tokens": 1 / rows.valid.sum(),
            "constant": 1 / (B * MAX_TOKENS),
        }[name]
    padding = ((0, 0), (0, more))
    found = normalise(np.pad(kept, padding), np.pad(rows.valid, padding), name, MAX_TOKENS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.pad(expected, padding), rtol=1e-6)


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_nothing_kept_weighs_nothing(name: Normalisation) -> None:
    nothing = np.zeros((2, 3), dtype=bool)
    assert not normalise(nothing, nothing, name, MAX_TOKENS).any()

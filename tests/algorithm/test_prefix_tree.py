"""Branches of groups: the prefix tree against its definition, and what ICT can see of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from ictcli.algorithm.branches import prefix_tree, where_kept
from ictcli.algorithm.quantities import js
from ictcli.types import Rollouts

ROW = st.lists(st.integers(0, 2), min_size=1, max_size=5)
GROUPS = st.integers(1, 4).flatmap(
    lambda n: st.lists(st.lists(ROW, min_size=n, max_size=n), min_size=1, max_size=3)
)


def rollouts_of(groups: list[list[list[int]]]) -> Rollouts:
    rows = [row for group in groups for row in group]
    T = max(map(len, rows))
    tokens = np.array([row + [0] * (T - len(row)) for row in rows], dtype=np.int32)
    lengths = np.array([len(row) for row in rows], dtype=np.int32)
    zeros = np.zeros(tokens.shape, dtype=np.float32)
    prompts = tuple((number,) for number in range(len(groups)))
    ended = np.ones(len(rows), dtype=bool)
    return Rollouts(prompts, len(groups[0]), tokens, lengths, ended, zeros, {"prob": zeros})


@given(GROUPS)
def test_branches_and_lone_tokens_are_those_of_the_definition(
    groups: list[list[list[int]]],
) -> None:
    rollouts = rollouts_of(groups)
    branch, alone = prefix_tree(rollouts)
    for place, row in enumerate(row for group in groups for row in group):
        others = list(groups[place // rollouts.group])
        others.remove(row)
        for t in range(rollouts.tokens.shape[1]):
            here = [other[t] for other in others if len(other) > t and other[:t] == row[:t]]
            inside = t < len(row)
            assert branch[place, t] == (inside and any(token != row[t] for token in here))
            assert alone[place, t] == (inside and not here)


def test_where_kept_tokens_lie_is_counted_by_hand() -> None:
    rollouts = rollouts_of([[[1, 2, 3], [1, 2, 4], [1, 5, 6]]])
    rollouts.stats["prob"][0] = [1.0, 1.0, 0.5]  # pyright: ignore[reportIndexIssue]
    kept = np.zeros((3, 3), dtype=bool)
    kept[0] = True
    found = where_kept(rollouts, kept)
    assert found["branch_share"] == pytest.approx(5 / 9)  # three second tokens, two third ones
    assert found["branch_recall"] == pytest.approx(2 / 5)
    assert found["branch_precision"] == pytest.approx(2 / 3)
    assert found["alone"] == pytest.approx(1 / 9)
    assert found["kept_sure"] == pytest.approx(2 / 3) and found["sure"] == pytest.approx(2 / 9)
    assert where_kept(rollouts, np.zeros((3, 3), dtype=bool))["branch_precision"] is None


@given(st.integers(0, 2**32), st.integers(2, 6))
def test_uniqueness_is_zero_at_a_first_branch(seed: int, group: int) -> None:
    """Up to there all rollouts have one distribution, which is the group's mean: so ICT cannot keep
    the token where they part first."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(7))
    shared = np.tile(p, (group, 1))
    np.testing.assert_allclose(js(np, shared, shared.mean(axis=0)), 0, atol=1e-12)
    after = rng.dirichlet(np.ones(7), size=group)
    uniqueness = js(np, after, after.mean(axis=0))
    expected = [jensenshannon(row, after.mean(axis=0)) ** 2 for row in after]
    np.testing.assert_allclose(uniqueness, expected, atol=1e-9)

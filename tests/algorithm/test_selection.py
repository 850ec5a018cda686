"""Laws of exact selection; advantages of a group, and the weights of kept tokens."""

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from drawn import Ragged, ceil_percent, parts, percents, ragged, seeds
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from ictcli.algorithm.selection import Scope, random_share, share_count, top_share
from ictcli.algorithm.weights import Normalisation, group_advantage, normalise
from ictcli.types import BoolArray

scopes = st.sampled_from(["response", "group", "batch"])


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(0, 1_000_000))
def test_share_count_is_the_exact_ceiling(above: int, below: int, tokens: int) -> None:
    keep = Fraction(min(above, below), max(above, below))
    assert share_count(float(keep), tokens) == math.ceil(keep * tokens)


def by_sorting(rows: Ragged, percent: int, scope: Scope, zeros: bool) -> BoolArray:
    """`top_share` the slow way: sort (score, position, row) as tuples, take the first ones."""
    kept = np.zeros(rows.valid.shape, dtype=bool)
    for part in parts(rows.valid, scope, rows.group):
        tokens = [
            (-rows.score[i, t], t, i)
            for i in range(part.start, part.stop)
            for t in range(rows.valid.shape[1])
            if rows.valid[i, t]
        ]
        for minus_score, t, i in sorted(tokens)[: ceil_percent(percent, len(tokens))]:
            kept[i, t] = zeros or minus_score < 0
    return kept


@given(ragged(), percents, scopes, st.booleans())
def test_top_share_is_the_sorted_head_with_ties_to_the_earlier_position(
    rows: Ragged, percent: int, scope: Scope, zeros: bool
) -> None:
    found = top_share(
        rows.score, rows.valid, percent / 100, scope=scope, group=rows.group, zeros=zeros
    )
    np.testing.assert_array_equal(found, by_sorting(rows, percent, scope, zeros))


@given(ragged(), percents, scopes, seeds, st.floats(0, 1))
def test_random_share_is_exact_and_reproducible(
    rows: Ragged, percent: int, scope: Scope, seed: int, highest: float
) -> None:
    among = rows.score <= highest
    first, again = (
        random_share(
            rows.valid,
            percent / 100,
            np.random.default_rng(seed),
            scope=scope,
            group=rows.group,
            among=among,
        )
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)
    assert not (first & ~(rows.valid & among)).any()
    for part in parts(rows.valid, scope, rows.group):
        asked = ceil_percent(percent, int(rows.valid[part].sum()))
        assert first[part].sum() == min(asked, int((rows.valid & among)[part].sum()))


@pytest.mark.parametrize("scope", ["response", "group", "batch"])
def test_random_share_is_uniform(scope: Scope) -> None:
    """Chi-square of how often each token was drawn, corrected for drawing without replacement."""
    valid = np.arange(12)[None, :] < np.array([12, 5, 9, 10])[:, None]
    rng = np.random.default_rng(20)
    draws = 600
    drawn = np.zeros(valid.shape)
    for _ in range(draws):
        drawn += random_share(valid, 0.3, rng, scope=scope, group=2)
    for part in parts(valid, scope, 2):
        counts = drawn[part][valid[part]]
        n, k = len(counts), ceil_percent(30, len(counts))
        expected = draws * k / n
        statistic = ((counts - expected) ** 2).sum() / expected * (n - 1) / (n - k)
        assert 0.001 < chi2.sf(statistic, n - 1) < 0.999


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
    nothing = np.zeros_like(kept)
    assert not normalise(nothing, nothing, name, MAX_TOKENS).any()

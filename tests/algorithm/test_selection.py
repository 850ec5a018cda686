"""Laws of exact selection."""

import math
from fractions import Fraction

import numpy as np
import pytest
from drawn import Ragged, ceil_percent, parts, percents, ragged, seeds
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from ictcli.algorithm.selection import Scope, random_share, share_count, top_share
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

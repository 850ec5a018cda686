"""Laws of exact selection."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from drawn import Ragged, ceil_percent, parts, percents, ragged, seeds
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from ictcli.algorithm.selection import Scope, random_share, share_count, top_share
from ictcli.types import BoolArray, FloatArray

scopes = st.sampled_from(["response", "group", "batch"])


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(0, 1_000_000))
def test_share_count_is_the_exact_ceiling(above: int, below: int, tokens: int) -> None:
    keep = Fraction(min(above, below), max(above, below))
    assert share_count(float(keep), tokens) == math.ceil(keep * tokens)


@pytest.mark.parametrize(
    ("keep", "tokens", "count"),
    [(0.1, 70, 7), (0.1, 71, 8), (0.1, 1, 1), (0.1, 0, 0), (0.3, 10, 3), (1.0, 9, 9), (2e-4, 3, 1)],
)
def test_share_count_of_known_cases(keep: float, tokens: int, count: int) -> None:
    assert share_count(keep, tokens) == count


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


@given(ragged(), percents, scopes)
def test_the_kept_count_is_exact_in_every_unit(rows: Ragged, percent: int, scope: Scope) -> None:
    keep, valid = percent / 100, rows.valid
    positive = top_share(rows.score, valid, keep, scope=scope, group=rows.group)
    full = top_share(rows.score, valid, keep, scope=scope, group=rows.group, zeros=True)
    for part in parts(valid, scope, rows.group):
        promised = ceil_percent(percent, int(valid[part].sum()))
        assert full[part].sum() == promised
        assert positive[part].sum() == min(promised, (valid & (rows.score > 0))[part].sum())


@given(ragged(), percents, scopes)
def test_zero_and_padding_are_never_kept(rows: Ragged, percent: int, scope: Scope) -> None:
    kept = top_share(rows.score, rows.valid, percent / 100, scope=scope, group=rows.group)
    assert not (kept & (~rows.valid | (rows.score == 0))).any()


def test_ties_go_to_the_earlier_position_then_to_the_earlier_row() -> None:
    valid = np.ones((2, 10), dtype=bool)
    kept = top_share(np.ones((2, 10)), valid, 0.15, scope="batch")
    np.testing.assert_array_equal(np.argwhere(kept), [[0, 0], [0, 1], [1, 0]])


@given(ragged(), percents, scopes, st.integers(1, 9))
def test_padded_columns_change_nothing(rows: Ragged, percent: int, scope: Scope, more: int) -> None:
    B, T = rows.valid.shape
    wide_valid = np.zeros((B, T + more), dtype=bool)
    wide_valid[:, :T] = rows.valid
    wide_score = np.full((B, T + more), 99.0)
    wide_score[:, :T] = np.where(rows.valid, rows.score, 99.0)
    keep = percent / 100
    found = top_share(wide_score, wide_valid, keep, scope=scope, group=rows.group)
    plain = top_share(rows.score, rows.valid, keep, scope=scope, group=rows.group)
    np.testing.assert_array_equal(found[:, :T], plain)
    assert not found[:, T:].any()


@pytest.mark.parametrize("transform", [np.square, np.expm1, np.sqrt, lambda score: score * 1e-30])
@given(rows=ragged(), percent=percents, scope=scopes)
def test_only_the_order_of_the_scores_counts(
    transform: Callable[[FloatArray], FloatArray], rows: Ragged, percent: int, scope: Scope
) -> None:
    keep = percent / 100
    np.testing.assert_array_equal(
        top_share(transform(rows.score), rows.valid, keep, scope=scope, group=rows.group),
        top_share(rows.score, rows.valid, keep, scope=scope, group=rows.group),
    )


@given(ragged(), percents)
def test_a_response_is_judged_alone_under_scope_response(rows: Ragged, percent: int) -> None:
    together = top_share(rows.score, rows.valid, percent / 100)
    alone = [
        top_share(rows.score[i : i + 1], rows.valid[i : i + 1], percent / 100)
        for i in range(len(rows.valid))
    ]
    np.testing.assert_array_equal(together, np.concatenate(alone))


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
    draws = 2000
    drawn = np.zeros(valid.shape)
    for _ in range(draws):
        drawn += random_share(valid, 0.3, rng, scope=scope, group=2)
    for part in parts(valid, scope, 2):
        counts = drawn[part][valid[part]]
        n, k = len(counts), ceil_percent(30, len(counts))
        expected = draws * k / n
        statistic = ((counts - expected) ** 2).sum() / expected * (n - 1) / (n - k)
        assert 0.001 < chi2.sf(statistic, n - 1) < 0.999


def test_random_share_follows_its_generator() -> None:
    valid = np.ones((1, 100), dtype=bool)
    a, b = (random_share(valid, 0.1, np.random.default_rng(seed)) for seed in (0, 1))
    assert (a != b).any()

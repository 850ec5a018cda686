"""pass@k against counting, and its interval against what intervals must do."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ictcli.evaluation.passk import bootstrap_mean, paired, pass_at_k


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(*[st.just(n), st.integers(1, n)])))
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_one(nk: tuple[int, int]) -> None:
    n, k = nk
    found = pass_at_k(n, np.arange(n + 1), k)
    for c in range(n + 1):
        subsets = list(itertools.combinations([True] * c + [False] * (n - c), k))
        assert found[c] == pytest.approx(sum(map(any, subsets)) / len(subsets), abs=1e-12)


@given(st.integers(1, 400), st.data())
def test_pass_at_k_is_a_share_that_grows_with_k_and_c(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, n))
    found = pass_at_k(n, np.arange(n + 1), k)
    assert found[0] == 0 and found[n] == 1
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found) >= -1e-12).all()
    if k < n:
        assert (pass_at_k(n, np.arange(n + 1), k + 1) >= found - 1e-12).all()
    if k == 1:
        np.testing.assert_allclose(found, np.arange(n + 1) / n, atol=1e-12)


def test_pass_at_k_stays_exact_where_binomials_overflow() -> None:
    assert pass_at_k(10_000, np.array([1]), 100)[0] == pytest.approx(0.01)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 0), (4, 1, 5), (4, 5, 1), (4, -1, 1), (0, 0, 1)])
def test_pass_at_k_refuses_what_is_no_count(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="needs 1 <= k <= n"):
        pass_at_k(n, np.array([c]), k)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(0, 3))
def test_an_interval_holds_its_mean_and_lies_among_the_values(
    values: list[float], seed: int
) -> None:
    found = bootstrap_mean(np.array(values), seed)
    assert found.value == pytest.approx(np.mean(values))
    assert min(values) - 1e-12 <= found.low <= found.high <= max(values) + 1e-12
    assert found == bootstrap_mean(np.array(values), seed)


def test_an_interval_of_one_value_or_of_equal_values_is_that_value() -> None:
    for values in ([0.3], [0.25] * 7):
        found = bootstrap_mean(np.array(values))
        assert found.low == found.value == found.high == values[0]


def test_95_percent_intervals_hold_the_truth_about_95_times_in_100() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for trial in range(200):
        found = bootstrap_mean((rng.random(80) < 0.3).astype(float), trial)
        held += found.low <= 0.3 <= found.high
    assert 180 <= held <= 198  # 95 % of 200 is 190; the binomial's 0.1 % and 99.9 % quantiles


def test_four_times_the_problems_halve_the_interval() -> None:
    rng = np.random.default_rng(1)
    widths: list[float] = []
    for size in (200, 800):
        found = bootstrap_mean(rng.random(size))
        widths.append(found.high - found.low)
    assert widths[0] / widths[1] == pytest.approx(2, rel=0.15)


def test_paired_differences_hold_the_truth_about_95_times_in_100() -> None:
    """Two models that share the problems' difficulty: their difference is known far better than
    either."""
    rng = np.random.default_rng(2)
    held = narrow = 0
    for trial in range(200):
        hardness = rng.beta(0.5, 0.5, 100)
        first = rng.binomial(8, hardness) / 8
        other = rng.binomial(8, 0.9 * hardness) / 8
        found = paired(other, first, trial)
        held += found.low <= -0.05 <= found.high  # a tenth of the mean hardness, 1/2
        narrow += found.high - found.low < bootstrap_mean(first).high - bootstrap_mean(first).low
        assert found.differs == (found.high < 0 or found.low > 0)
    assert 180 <= held <= 198
    assert narrow > 190


def test_a_paired_interval_is_scipy_s_of_paired_samples() -> None:
    rng = np.random.default_rng(3)
    first, other = rng.random(60), rng.random(60)
    found = paired(other, first)
    expected = stats.bootstrap(
        (other, first),
        lambda x, y, axis=-1: np.mean(x - y, axis=axis),
        paired=True,
        n_resamples=20000,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    assert found.value == pytest.approx(np.mean(other) - np.mean(first))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.015)


def test_a_model_does_not_differ_from_itself_nor_on_one_problem() -> None:
    values = np.array([0.0, 1.0, 0.5])
    assert not paired(values, values).differs
    assert not paired(values[1:2], values[:1]).differs
    assert paired(values * 0 + 1, values * 0).differs

"""pass@k and maj@n against counting, and intervals against what intervals must do."""

import itertools
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from ictcli.evaluation.majority import majority
from ictcli.evaluation.passk import bounds_of_mean, mean_interval, paired, pass_at_k, ratio_interval
from ictcli.evaluation.samples import Sample
from ictcli.rewards import Verdict, find_verifier
from tests.cases import FEW


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(*[st.just(n), st.integers(1, n)])))
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_one(nk: tuple[int, int]) -> None:
    n, k = nk
    found = pass_at_k(n, np.arange(n + 1), k)
    for c in range(n + 1):
        subsets = list(itertools.combinations([True] * c + [False] * (n - c), k))
        assert found[c] == pytest.approx(sum(map(any, subsets)) / len(subsets), abs=1e-12)


def test_pass_at_k_stays_exact_where_binomials_overflow() -> None:
    assert pass_at_k(10_000, np.array([1]), 100)[0] == pytest.approx(0.01)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 0), (4, 1, 5), (4, 5, 1), (4, -1, 1), (0, 0, 1)])
def test_pass_at_k_refuses_what_is_no_count(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="needs 1 <= k <= n"):
        pass_at_k(n, np.array([c]), k)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_an_interval_lies_around_its_mean_has_a_width_and_is_turned_over_by_wrong_for_right(
    values: list[float],
) -> None:
    found, turned = mean_interval(np.array(values)), mean_interval(1 - np.array(values))
    assert found.value == pytest.approx(np.mean(values))
    assert 0 <= found.low <= found.value + 1e-9 and found.value - 1e-9 <= found.high <= 1
    assert found.high - found.low > 0.5 / (len(values) + 1)
    assert (turned.low, turned.high) == pytest.approx((1 - found.high, 1 - found.low), abs=1e-6)


@given(st.integers(1, 600).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_an_interval_of_shares_of_0_and_1_is_clopper_and_pearson_s(nc: tuple[int, int]) -> None:
    n, count = nc
    found = mean_interval((np.arange(n) < count).astype(float))
    exact = stats.binomtest(count, n).proportion_ci(0.95, "exact")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-6)


def test_intervals_of_ratios_hold_the_truth() -> None:
    rng, held = np.random.default_rng(1), 0
    for _ in range(100):
        wholes = rng.integers(1, 30, 16).astype(float)
        found = ratio_interval(wholes * rng.beta(1, 3, 16), wholes)
        held += found.low <= 1 / 4 <= found.high
    assert held >= 94
    alike = mean_interval(np.repeat([0.0, 1.0], [30, 10]))
    found = ratio_interval(np.repeat([0.0, 5.0], [70, 10]), np.repeat([0.0, 5.0], 40))
    assert (found.low, found.high) == pytest.approx((alike.low, alike.high), abs=0.01)


@pytest.mark.parametrize("problems", [5, 200])
@pytest.mark.parametrize(("base", "spread"), [(0.02, 0.5), (0.38, 2.0), (0.99, 2.0)])
@pytest.mark.parametrize(("n", "k"), [(4, 4), (16, 1)])
def test_95_percent_intervals_hold_the_truth(
    problems: int, base: float, spread: float, n: int, k: int
) -> None:
    """`bench/coverage.py` has the whole table, and the bootstrap, which never does in some."""
    rng = np.random.default_rng(problems + k)
    a, b = base * spread, (1 - base) * spread
    chance = rng.beta(a, b, (1000, problems))
    low, high = bounds_of_mean(pass_at_k(n, np.arange(n + 1), k)[rng.binomial(n, chance)])
    truth = 1 - np.exp(special.betaln(a, b + k) - special.betaln(a, b))
    assert ((low <= truth) & (truth <= high)).mean() >= 0.93


def test_paired_differences_hold_the_truth_about_95_times_in_100() -> None:
    """Two models that share the problems' difficulty: their difference is known far better than
    either."""
    rng = np.random.default_rng(2)
    held = narrow = 0
    for _ in range(200):
        hardness = rng.beta(0.5, 0.5, 100)
        first = rng.binomial(8, hardness) / 8
        other = rng.binomial(8, 0.9 * hardness) / 8
        found = paired(other, first)
        held += found.low <= -0.05 <= found.high  # a tenth of the mean hardness, 1/2
        narrow += found.high - found.low < mean_interval(first).high - mean_interval(first).low
        assert found.differs == (found.high < 0 or found.low > 0)
    assert held >= 186
    assert narrow > 190


SPELLINGS = {
    "math": [["2", "2.0", r"\frac{4}{2}", "x = 2"], ["0.5", r"\frac12", "1/2"], ["7", "7."], ["y"]],
    "choice": [["A"], ["B"], ["D"]],
    "integer": [["1,080", "1080", "$1080", "1080.0"], ["7"]],
}
"""Wrong answers that are equal, by verifier."""


def sample(status: Any, extracted: str = "") -> Sample:
    return Sample(id="p", status=status, extracted=extracted, tokens=1, finished=True)


def by_hand(row: list[Sample], spellings: list[list[str]]) -> float:
    """The share of the answers with the most votes that is right."""
    meaning = {text: texts[0] for texts in spellings for text in texts}
    votes = Counter(
        "right" if one.status == "correct" else meaning[one.extracted]
        for one in row
        if one.status in ("correct", "wrong")
    )
    best = [name for name, count in votes.items() if count == max(votes.values())]
    return ("right" in best) / max(len(best), 1)


OTHERS = [("correct", "3"), ("correct", "6/2"), ("unparsed", ""), ("timeout", "9!!")]


@pytest.mark.parametrize("kind", SPELLINGS)
@FEW
@given(chance=st.randoms(use_true_random=False))
def test_equal_answers_vote_together_in_whatever_dress(kind: str, chance: random.Random) -> None:
    wrong = [("wrong", text) for texts in SPELLINGS[kind] for text in texts]
    every = [sample(*each) for each in (*wrong, *OTHERS, *OTHERS[:2])]
    rows = [chance.choices(every, k=7) for _ in range(30)]
    found = majority(rows, find_verifier(kind))
    assert found is not None
    assert found.tolist() == pytest.approx([by_hand(row, SPELLINGS[kind]) for row in rows])


def test_a_verifier_that_extracts_nothing_has_no_majority() -> None:
    def even(response: str, gold: str) -> Verdict:
        return Verdict("wrong" if len(response) % 2 else "correct")

    assert majority([[sample("correct"), sample("wrong")]], even) is None

"""Intervals, tests and corrections against scipy, by brute force, and in simulated comparisons."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from worlds import World, p_values, pass_k

from ictcli.compare.differences import Contrast, corrected, differences, step_down
from ictcli.compare.statistics import BEFORE, estimate, evidence, scores_of
from tests.cases import first

WORLD = World()
"""Runs that vary by about 2.5 points."""


def upper(trials: int, share: float = 0.05) -> int:
    """What a binomial of that share exceeds once in a thousand times."""
    return int(stats.binom.ppf(0.999, trials, share))


@pytest.mark.parametrize(
    ("world", "S", "N", "k"),
    first(
        [
            (WORLD, 3, 64, 4),
            (World(run=0.4), 4, 128, 1),
            (World(taste=1.0), 5, 64, 1),  # each method is better on other problems
            (World(run=0.05), 4, 128, 1),
            *((WORLD, S, 64, k) for S, k in ((5, 1), (5, 4), (3, 1))),
        ],
        3,
    ),
)
def test_identical_methods_seldom_differ_and_intervals_hold_the_truth(
    world: World, S: int, N: int, k: int
) -> None:
    shift = world.shift_for(0.1, k)
    cells = pass_k(world.counts(np.random.default_rng(S * N + k), 400, S, N, [0, 0, shift]), k)
    assert (p_values(cells[:, 1] - cells[:, 0]) <= 0.05).sum() <= upper(400)
    mean = p_values(cells[:, 0], world.truth(0, k)) <= 0.05
    gain = p_values(cells[:, 2] - cells[:, 0], 0.1) <= 0.05
    assert 0 < mean.sum() <= upper(400) and gain.sum() <= upper(400)  # nor are they all-embracing


@pytest.mark.parametrize("shape", [(1, 50), (7, 1)])
def test_one_seed_or_one_problem_is_scipy_s_paired_t(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    first, other = rng.random(shape), rng.random(shape)
    found = evidence(other, first).difference()
    expected: Any = stats.ttest_rel(other.ravel(), first.ravel())
    bounds = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx((bounds.low, bounds.high))
    assert shape[0] > 1 or not found.differs  # one seed tells nothing of a method


@given(st.integers(1, 5), st.integers(1, 8), st.integers(0, 999))
def test_laws_of_a_difference(S: int, N: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, other = rng.binomial(4, 0.5, (2, S, N)) / 4
    found, back = evidence(other, first).difference(), evidence(first, other).difference()
    assert found.value == pytest.approx((other - first).mean(), abs=1e-12)
    assert back.value == -found.value and back.p == found.p
    assert (back.low is None) == (N == 1 and np.ptp(other - first) == 0)  # one value included
    if found.low is not None and back.high is not None:
        assert -1 <= found.low <= found.value <= (found.high or 0) <= 1
        assert back.high == pytest.approx(-found.low)
    assert evidence(other[::-1, ::-1], first[::-1, ::-1]).p == pytest.approx(found.p)


def test_a_variant_does_not_differ_from_itself_nor_by_rounding() -> None:
    first = np.array([[0.4, 0.6], [0.2, 0.8]])
    same = evidence(first, first).difference()
    # equal but for the last bits: no variation was seen
    shifted = evidence(first + 0.1, first).difference()
    assert same.value == 0
    for found in (same, shifted):
        assert found.p is None and not found.differs
        assert found.low is not None and found.high is not None
        assert -1 <= found.low < found.value < found.high <= 1


@pytest.mark.parametrize("N", [8, 512])
def test_shares_at_a_bound_are_bounded_by_what_would_have_shown_else(N: int) -> None:
    """Clopper and Pearson's in closed form: at the bound nothing but 0 has chance 0.025."""
    floor, ceiling = estimate(np.zeros((3, N))), estimate(np.ones((3, N)))
    assert (floor.low, ceiling.high) == (0, 1) and floor.high is not None
    assert (1 - floor.high) ** N == pytest.approx(0.025)
    assert ceiling.low == pytest.approx(1 - floor.high)
    for few in (np.zeros((1, 1)), np.full((3, 1), 0.5)):
        assert (estimate(few).low, estimate(few).high) == (None, None)


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 5]), st.sampled_from([2, 30, 64]))
def test_intervals_have_a_width_and_stay_in_bounds(seed: int, S: int, N: int) -> None:
    rng = np.random.default_rng(seed)
    chance = rng.choice([0.0, 0.01, 0.5, 0.99, 1.0])
    first, second = (rng.binomial(4, chance, (S, N)) / 4 for _ in range(2))
    mean, change = estimate(first), evidence(second, first).difference()
    for found, floor in ((mean, 0.0), (change, -1.0)):
        assert found.low is not None and found.high is not None and found.low < found.high
        assert floor <= found.low <= found.value <= found.high <= 1
    if change.p is not None and change.low is not None and change.high is not None:
        assert (change.p < 0.0499) <= (not change.low <= 0 <= change.high) <= (change.p < 0.0501)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_is_its_definition(ps: list[float]) -> None:
    """Adjusted p: the least level at which the step-down procedure rejects the hypothesis."""
    for p, found in zip(ps, step_down(ps), strict=True):
        smaller = [(q, sum(r < q for r in ps)) for q in ps if q <= p]
        assert found == pytest.approx(max(q * (len(ps) - below) for q, below in smaller))


def test_a_family_is_all_contrasts_and_metrics() -> None:
    rng = np.random.default_rng(0)
    labels = [BEFORE, "grpo", "ict", "random"]
    scores = scores_of({label: rng.binomial(4, 0.5, (4, 30)) for label in labels}, 4, [1, 4])
    found = differences(scores, [Contrast("ict", "grpo"), Contrast("random", "grpo")])
    assert {m: list(rows) for m, rows in found.items()} == {
        m: ["ict:grpo", "random:grpo"] for m in ("pass@1", "pass@4")
    }
    flat = [row for rows in found.values() for row in rows.values()]
    assert [row.p_holm for row in flat] == pytest.approx(
        np.minimum(step_down([row.p or 0 for row in flat]), 1)
    )
    alone = evidence(scores["pass@1"]["ict"], scores["pass@1"]["grpo"]).difference()
    assert found["pass@1"]["ict:grpo"].p == alone.p and alone.p_holm is None
    pair = evidence(scores["pass@1"]["ict"], scores["pass@1"]["grpo"])
    without = evidence(np.array([[1.0]]), np.array([[0.0]]))  # it has no p
    assert [each.p_holm for each in corrected({0: without, 1: pair}).values()] == [None, alone.p]


def test_scores_are_shares_and_missing_runs_are_left_out() -> None:
    counts = np.array([[0, 1, 4], [-1, -1, -1], [4, 4, 2]])
    scores = scores_of({"ict": counts, "grpo": np.abs(counts)}, 4, [1])["pass@1"]
    found = estimate(scores["ict"])
    assert found.seeds == 2 and found.value == pytest.approx(15 / 24)
    assert evidence(scores["ict"], scores["grpo"]).difference().seeds == 2
    with pytest.raises(ValueError, match="no finished run"):
        estimate(scores["ict"][1:2])


def test_intervals_after_correction_agree_with_their_tests() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(0, 0.1, (4, 40))
    cells = [base * scale + rng.normal(0, 0.2, (4, 40)) + mean for scale in (0.5, 1)
             for mean in (0.0, 0.02, 0.05, 0.2)]  # fmt: skip
    shown = {at: evidence(each, np.zeros((4, 40))) for at, each in enumerate(cells)}
    found = corrected(shown).values()
    assert {each.differs for each in found} == {True, False}
    for each, own in zip(found, cells, strict=True):
        assert each.low_holm is not None and each.high_holm is not None
        assert each.differs == (not each.low_holm <= 0 <= each.high_holm)
        assert each.low is not None and each.low_holm <= each.low + 1e-9
        assert each.high is not None and each.high_holm >= each.high - 1e-9
        assert each.by_seed == pytest.approx(own.mean(axis=1))
        assert each.detectable_holm is None or 0 < each.detectable_holm <= 1

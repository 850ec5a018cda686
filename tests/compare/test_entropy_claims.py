"""What is said of entropy and of the theory's predictions."""

import numpy as np
import pytest
from made_results import by_name, variant

from ictcli.compare.entropy_claims import entropy_claims, entropy_tests, matched, prediction_claims
from ictcli.compare.judging import judged


def curves(*ratios: float) -> list[np.ndarray]:
    return [np.geomspace(2.0, 2.0 * ratio, 5).repeat(10) for ratio in ratios]


@pytest.mark.parametrize("label", ["ict", "ict keep=0.2", "grpo", "entropy20"])
def test_what_becomes_of_entropy_is_measured_with_its_interval(label: str) -> None:
    ratios = (0.2, 0.25, 0.23)
    (claim,) = by_name(entropy_claims({variant(label): curves(*ratios)})).values()
    assert claim.verdict == "measured"
    numbers = vars(claim.numbers)
    assert numbers["ratios"] == pytest.approx(ratios)
    assert numbers["low"] < min(ratios) < numbers["ratio"] < numbers["high"]
    for name in ("ratio", "low", "high"):
        assert f"{numbers[name]:.2f}" in claim.sentence


def test_entropy_s_last_tenth_counts_and_alarms_on_the_way_are_told() -> None:
    curve = np.ones(100)
    curve[1:90], curve[90:] = 9.0, 0.5
    curve[3] = np.nan
    (claim,) = entropy_claims({variant("ict"): [curve, curve]})
    assert vars(claim.numbers)["ratios"][0] == pytest.approx(0.5)
    assert vars(claim.numbers)["alarmed"] == 2
    assert entropy_claims({variant("ict"): [np.zeros(9), np.array([np.nan])]}) == []


def course(speed: float, height: float = 1.0, steps: int = 200, seed: int = 0) -> np.ndarray:
    """One that learns at a speed; its entropy is a function of its accuracy alone, times height."""
    rng = np.random.default_rng(seed)
    accuracy = 0.2 + 0.7 * (1 - np.exp(-speed * np.linspace(0, 1, steps)))
    entropy = height * np.exp(-2 * accuracy)
    return np.stack([accuracy + rng.normal(0, 0.02, steps), entropy])


@pytest.mark.parametrize(("fast", "slow"), [(2.0, 2.0), (6.0, 1.0), (1.0, 6.0)])
def test_a_faster_learner_of_the_same_entropy_has_no_other_at_equal_accuracy(
    fast: float, slow: float
) -> None:
    assert matched(course(fast), course(slow, seed=1)) == pytest.approx(0, abs=0.06)
    higher = matched(course(fast, 1.5), course(slow, seed=1))
    assert higher == pytest.approx(np.log(1.5), abs=0.06)


def test_courses_without_an_accuracy_in_common_are_not_compared() -> None:
    low, high = course(1.0), course(1.0)
    high[0] += 2
    assert matched(low, high) is None
    for empty in (low[:, :0], np.full((2, 30), np.nan)):
        assert matched(empty, low) is None


@pytest.mark.parametrize(
    ("height", "verdicts"),
    [(1.5, ("supported", "contradicted")), (0.6, ("contradicted", "supported"))],
)
def test_entropy_is_tested_seed_by_seed(height: float, verdicts: tuple[str, str]) -> None:
    def seeds(height: float, first: int = 10) -> dict[int, np.ndarray]:
        return {s: course(2.0 + s / 10, height, seed=first + s) for s in range(5)}

    of = {variant(label): seeds(height, 0) for label in ("ict", "ict max_prob=0.9")}
    of |= {variant("grpo"): seeds(1.0), variant("entropy20"): {0: course(2.0), **seeds(1.0)}}
    found = by_name(judged(entropy_tests({"all tokens": of})))
    names = [
        f"ict keeps {word} entropy than {rival} at equal accuracy: all tokens"
        for word, rival in (("more", "grpo"), ("less", "entropy20"))
    ]
    assert tuple(found[name].verdict for name in names) == verdicts
    claim = found[names[0]]
    assert claim.test and np.exp(claim.test.value) == pytest.approx(height, rel=0.05)
    assert f"{np.exp(claim.test.value):.2f} times grpo's" in claim.sentence
    assert {each.family for each in found.values()} == {"entropy", "variants"}
    for name in names:  # what was kept for decisions changes no family
        kept, *unkept = (
            by_name(judged(entropy_tests({"all tokens": of, "decisions": its})))[name]
            for its in (of, {}, {each: its for each, its in of.items() if each.method == "ict"})
        )
        for each in unkept:
            assert kept.test and each.test and kept.test.tests == each.test.tests == 4
            assert kept.test.p_holm and each.test.p_holm
            assert kept.test.p_holm <= each.test.p_holm
            assert "for decisions; those tests count" in each.sentence
        one_seed = {each: {0: its[0]} for each, its in of.items()}
        few = by_name(judged(entropy_tests({"all tokens": of, "decisions": one_seed})))[name]
        assert few.test == unkept[0].test


def test_predictions_are_held_to_the_paper_s_numbers() -> None:
    def verdict(*seeds: tuple[float, float]) -> str:
        (claim,) = by_name(prediction_claims({variant("ict"): seeds})).values()
        return claim.verdict

    assert verdict((0.985, 0.01), (0.986, 0.011), (0.987, 0.01)) == "supported"
    assert verdict((0.97, 0.01), (0.99, 0.015)) == "undecided"  # as other seeds may be outside
    assert verdict((0.97, 0.01), (0.94, 0.015)) == "undecided"
    assert verdict((0.50, 0.01), (0.51, 0.01), (0.49, 0.01)) == "contradicted"
    assert verdict((0.97, 0.09), (0.99, 0.091), (0.98, 0.09)) == "contradicted"
    assert verdict((0.99, 0.001)) == "undecided"
    assert verdict((0.50, 0.01), (0.50, 0.01)) == "undecided"  # equal seeds show no luck
    (one,) = prediction_claims({variant("ict"): [(0.99, 0.001)]})
    assert vars(one.numbers)["pearson"] == (0.99, None, None) and " to " not in one.sentence

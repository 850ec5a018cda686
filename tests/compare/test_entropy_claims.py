"""Verdicts on entropy and on the theory's predictions."""

import numpy as np
import pytest
from made_results import by_name, variant

from ictcli.compare.entropy_claims import entropy_claims, prediction_claims
from ictcli.train.health import COLLAPSE_BELOW, EXPLOSION_ABOVE


def curves(*ratios: float) -> list[np.ndarray]:
    return [np.geomspace(2.0, 2.0 * ratio, 5).repeat(10) for ratio in ratios]


@pytest.mark.parametrize(
    ("label", "ratios", "verdict"),
    [
        ("ict", (0.5, 0.9, 1.4), "supported"),
        ("ict keep=0.2", (COLLAPSE_BELOW * 1.01, EXPLOSION_ABOVE * 0.99), "supported"),
        ("ict", (0.02, 0.02, 0.021), "contradicted"),
        ("ict", (9.0, 9.5, 10.0), "contradicted"),
        ("ict", (0.5, 0.9, 0.05), "undecided"),
        ("ict", (0.5,), "undecided"),
        ("grpo", (0.02, 0.03, 0.05), "supported"),
        ("grpo", (0.5, 0.6, 0.55), "contradicted"),
        ("grpo", (0.05, 0.3), "undecided"),
        ("entropy20", (4.0, 8.0), "supported"),
        ("entropy20", (1.0, 1.1, 0.9), "contradicted"),
        ("entropy20", (2.0, 9.0), "undecided"),
    ],
)
def test_entropy_is_judged_by_every_seed(
    label: str, ratios: tuple[float, ...], verdict: str
) -> None:
    (claim,) = by_name(entropy_claims({variant(label): curves(*ratios)})).values()
    assert claim.verdict == verdict
    assert vars(claim.numbers)["ratios"] == pytest.approx(ratios)
    assert f"{vars(claim.numbers)['ratio']:.2f}" in claim.sentence


def test_entropy_s_last_tenth_counts_and_alarms_on_the_way_are_told() -> None:
    curve = np.ones(100)
    curve[1:90], curve[90:] = 9.0, 0.5
    curve[3] = np.nan
    (claim,) = entropy_claims({variant("ict"): [curve, curve]})
    assert vars(claim.numbers)["ratios"][0] == pytest.approx(0.5)
    assert claim.verdict == "supported" and vars(claim.numbers)["alarmed"] == 2
    assert entropy_claims({variant("ict"): [np.zeros(9), np.array([np.nan])]}) == []


def test_predictions_are_held_to_the_paper_s_numbers() -> None:
    def verdict(*seeds: tuple[float, float]) -> str:
        (claim,) = by_name(prediction_claims({variant("ict"): seeds})).values()
        return claim.verdict

    assert verdict((0.97, 0.01), (0.99, 0.015)) == "supported"
    assert verdict((0.97, 0.01), (0.94, 0.015)) == "undecided"
    assert verdict((0.50, 0.01), (0.51, 0.01), (0.49, 0.01)) == "contradicted"
    assert verdict((0.97, 0.09), (0.99, 0.091), (0.98, 0.09)) == "contradicted"
    assert verdict((0.99, 0.001)) == "undecided"
    assert verdict((0.50, 0.01), (0.50, 0.01)) == "undecided"  # equal seeds show no luck
    (one,) = prediction_claims({variant("ict"): [(0.99, 0.001)]})
    assert vars(one.numbers)["pearson"] == (0.99, None, None) and " to " not in one.sentence

"""Verdicts: what they say, when, and that they say it with the numbers they rest on."""

import numpy as np
import pytest
from made_results import by_name
from worlds import World

from ictcli.compare.claims import Trained, accuracy_claims, fork_claims
from ictcli.compare.entropy_claims import entropy_claims
from ictcli.compare.statistics import BEFORE, difference, holm, scores_of


def comparison(shifts: dict[str, float], S: int = 5, N: int = 256, seed: int = 0):
    drawn = World().counts(np.random.default_rng(seed), 1, S, N, list(shifts.values()))[0]
    return scores_of(dict(zip(shifts, drawn, strict=True)), 8, [1, 4])


def test_a_method_that_is_better_worse_or_alike_is_called_so() -> None:
    scores = comparison({BEFORE: -2, "ict": 0.0, "grpo": -1.5, "random": 1.5, "stapo": 0.0})
    kept = {"ict": Trained(0.1, 0.1), "random": Trained(0.11, 0.11)}
    found = by_name(accuracy_claims(scores, "chain", kept))
    for metric in ("pass@1", "pass@4"):
        assert (
            found[f"ict is better than grpo on chain at this size: {metric}"].verdict == "supported"
        )
        assert (
            found[f"ict is better than random on chain at this size: {metric}"].verdict
            == "contradicted"
        )
        assert (
            found[f"ict is better than stapo on chain at this size: {metric}"].verdict
            == "undecided"
        )
        assert not any(BEFORE in name or "than ict" in name for name in found)
    words = found["ict is better than random on chain at this size: pass@1"].sentence
    assert words.endswith("They trained 10.0 % and 11.0 % of the tokens.")


@pytest.mark.parametrize(
    ("mine", "other", "told"),
    [
        ((0.05, 0.05), (0.1, 0.1), "5.0 % and 10.0 % of the tokens: not the same number"),
        ((0.91, 0.1), (0.90, 0.05), "10.0 % and 5.0 % behind the dense warm-up: not the same"),
        ((1.0, None), (1.0, None), "every step, so the two are one method."),
    ],
)
def test_random_tokens_of_another_number_decide_nothing(
    mine: tuple[float, float | None], other: tuple[float, float | None], told: str
) -> None:
    scores = comparison({"ict": 0.0, "grpo": -1.5, "random": 1.5})
    found = by_name(
        accuracy_claims(scores, "chain", {"ict": Trained(*mine), "random": Trained(*other)})
    )
    claim = found["ict is better than random on chain at this size: pass@1"]
    assert told in claim.sentence
    assert claim.verdict == ("undecided" if "not the same" in told else "contradicted")
    assert found["ict is better than grpo on chain at this size: pass@1"].verdict == "supported"


def test_a_sentence_holds_the_numbers() -> None:
    scores = comparison({"ict": 0.0, "grpo": -1.0})
    claim = by_name(accuracy_claims(scores, "chain"))[
        "ict is better than grpo on chain at this size: pass@1"
    ]
    known = difference(scores["pass@1"]["ict"], scores["pass@1"]["grpo"])
    n = vars(claim.numbers)
    assert (n["value"], n["low"], n["p"], n["detectable"]) == (
        known.value,
        known.low,
        known.p,
        known.detectable,
    )
    assert n["rival"] == "grpo" and n["tests"] == 3
    for number in (n["value"], n["low"], n["high"], n["detectable"]):
        assert f"{100 * number:.1f}".replace("-", "\u2212") in claim.sentence
    assert "5 seeds and 256 problems" in claim.sentence
    assert "over 3 tests" in claim.sentence


def test_each_family_is_corrected_by_itself() -> None:
    labels = {BEFORE: -0.5, "ict": 0.0, "grpo": 0, "random": 0, "stapo": 0, "entropy20": 0}
    found = accuracy_claims(comparison(labels, seed=3), "chain")
    for names, size in ((("grpo", "random", BEFORE), 6), (("stapo", "entropy20"), 4)):
        family = [
            c
            for c in found
            if vars(c.numbers)["rival"] in names
            or (size == 6 and vars(c.numbers)["rival"].startswith("its"))
        ]
        assert len(family) == size
        assert all(vars(c.numbers)["tests"] == size for c in family)
        ps = [vars(c.numbers)["p"] for c in family]
        assert [vars(c.numbers)["p_holm"] for c in family] == pytest.approx(holm(ps))


def test_what_shares_no_seed_is_not_judged() -> None:
    scores = comparison({BEFORE: -2, "ict": 0.0, "grpo": -1.5, "random": 1.5})
    for mine in scores.values():
        mine["ict"][:2], mine["grpo"][2:] = np.nan, np.nan
        mine["random"][2] = np.nan
    found = by_name(accuracy_claims(scores, "chain"))
    assert not any("grpo" in name for name in found)
    assert (
        vars(found["ict is better than random on chain at this size: pass@1"].numbers)["seeds"] == 2
    )
    assert {vars(claim.numbers)["tests"] for claim in found.values()} == {len(found)}
    assert fork_claims({"ict": [0.1, float("nan")], "random": [float("nan"), 0.2]}) == []
    assert fork_claims({"ict": [0.1, 0.2], "random": [0.2]}) == []
    recall = {"ict": [0.1, 0.2, float("nan")], "random": [0.1, 0.3, 0.2]}
    assert vars(fork_claims(recall)[0].numbers)["seeds"] == 2


def test_a_minus_is_no_hyphen() -> None:
    scores = comparison({"ict": 0.0, "grpo": 1.0, "random": -1.0})
    for claim in accuracy_claims(scores, "chain"):
        assert "-" not in claim.sentence
        if "gains" not in claim.name:
            assert ("\u2212" in claim.sentence) == (vars(claim.numbers)["low"] < -0.0005)


def test_one_seed_decides_nothing() -> None:
    claims = accuracy_claims(
        comparison({BEFORE: -2, "ict": 1, "grpo": -1, "random": -1}, S=1), "chain"
    )
    assert {claim.verdict for claim in claims} == {"undecided"}
    assert all("one seed cannot tell" in claim.sentence for claim in claims)


def test_identical_methods_are_seldom_judged() -> None:
    """A family of six true nulls errs in 5 comparisons of 100 at most."""
    shifts = {BEFORE: 0.0, "ict": 0.0, "grpo": 0.0, "random": 0.0}
    wrong = sum(
        any(
            claim.verdict != "undecided"
            for claim in accuracy_claims(comparison(shifts, 4, 40, s), "chain")
        )
        for s in range(60)
    )
    assert wrong <= 9  # exceeded once in a thousand times


def test_what_pass_4_gains_more_than_pass_1() -> None:
    """By hand: grpo has half of each problem's samples right; ict adds samples, or problems."""
    base = np.tile([8, 0, 8, 0], (3, 20))
    wider = np.where(np.arange(80) % 2, 2, 6) + np.zeros((3, 1), dtype=int)
    surer = np.tile([2, 2, 2, 2], (3, 20))
    surest = np.tile([8, 8, 8, 2], (3, 20))
    noise = np.random.default_rng(0).integers(0, 2, (3, 80))
    name = "ict gains more in pass@4 than in pass@1 over grpo, on chain at this size"
    spread = scores_of({"grpo": base, "ict": np.clip(wider + noise, 0, 8)}, 8, [1, 4])
    assert by_name(accuracy_claims(spread, "chain"))[name].verdict == "supported"
    sharpened = scores_of({"grpo": surer, "ict": np.clip(surest - noise, 0, 8)}, 8, [1, 4])
    claim = by_name(accuracy_claims(sharpened, "chain"))[name]
    one, many = sharpened["pass@1"], sharpened["pass@4"]
    expected = (many["ict"] - many["grpo"]).mean() - (one["ict"] - one["grpo"]).mean()
    assert vars(claim.numbers)["value"] == pytest.approx(expected)
    assert claim.verdict == "contradicted"
    assert "grpo left 75.0 points to gain in pass@1" in claim.sentence


def test_a_method_that_only_does_damage_gains_nothing() -> None:
    """A pass@4 that loses less than pass@1 does is no gain, and one that stays is none either."""
    half, rng = np.full((3, 80), 4), np.random.default_rng(0)
    name = "ict gains more in pass@4 than in pass@1 over grpo, on chain at this size"
    for mine, verdict, told in (
        (rng.integers(0, 2, (3, 80)), "contradicted", "So pass@4 loses."),
        (np.full((3, 80), 3) - np.arange(80) % 2, "contradicted", "So pass@4 loses."),
    ):
        scores = scores_of({"grpo": half, "ict": mine}, 8, [1, 4])
        claim = by_name(accuracy_claims(scores, "chain"))[name]
        assert claim.verdict == verdict and told in claim.sentence
        for metric in ("pass@4", "pass@1"):
            gain = 100 * (scores[metric]["ict"] - scores[metric]["grpo"]).mean()
            assert gain < 0 and f"\u2212{-gain:.1f}" in claim.sentence
    sure = np.tile([8, 0, 8, 0], (3, 20))  # pass@4 of a tile: a half of grpo's, and as much after
    spread = np.clip(sure - 2, 0, 8) - rng.integers(0, 2, (3, 80)) * (sure > 0)
    claim = by_name(accuracy_claims(scores_of({"grpo": sure, "ict": spread}, 8, [1, 4]), "chain"))[
        name
    ]
    assert vars(claim.numbers)["value"] > 0.1 and vars(claim.numbers)["p_holm"] < 0.05
    assert claim.verdict == "undecided" and "itself not told from 0" in claim.sentence


def test_a_swept_variant_meets_its_own_rivals() -> None:
    labels = ["grpo", "ict keep=0.1 warmup=0", "ict keep=0.3 warmup=0", "ict keep=0.3 warmup=9"]
    rivals = [v.replace("ict", "random") for v in labels[1:3]] + ["entropy20 keep=0.3"]
    found = by_name(
        accuracy_claims(comparison(dict.fromkeys([*labels, *rivals], 0.0), N=20), "chain")
    )
    pairs = {name.split(" on chain")[0] for name in found if "better" in name}
    assert pairs == {
        "ict keep=0.1 warmup=0 is better than grpo",
        "ict keep=0.1 warmup=0 is better than random keep=0.1 warmup=0",
        "ict keep=0.1 warmup=0 is better than ict keep=0.3 warmup=0",
        "ict keep=0.3 warmup=0 is better than grpo",
        "ict keep=0.3 warmup=0 is better than random keep=0.3 warmup=0",
        "ict keep=0.3 warmup=0 is better than entropy20 keep=0.3",
        "ict keep=0.3 warmup=9 is better than grpo",
        "ict keep=0.3 warmup=9 is better than entropy20 keep=0.3",
    }


def test_shares_are_numbers_however_they_are_typed() -> None:
    labels = ["ict keep=0.10 lr=1e-4", "ict keep=2e-1 lr=1e-4", "random keep=0.1 lr=0.0001"]
    found = by_name(accuracy_claims(comparison(dict.fromkeys(labels, 0.0), N=20), "chain"))
    pairs = {tuple(name.split(" on chain")[0].split(" is better than ")) for name in found}
    assert pairs == {(labels[0], labels[1]), (labels[0], labels[2])}


def test_forks_are_claimed_of_each_share_of_a_sweep() -> None:
    rng = np.random.default_rng(0)
    means = {"ict keep=0.05": 0.1, "ict keep=0.2": 0.4, "random keep=0.05": 0.05}
    means |= {"random keep=0.2": 0.2, "entropy20": 0.6}
    recall = {label: (mean + rng.normal(0, 0.002, 5)).tolist() for label, mean in means.items()}
    kept = {"ict keep=0.05": 0.05, "random keep=0.05": 0.051, "ict keep=0.2": 0.2}
    found = by_name(fork_claims(recall, {**kept, "random keep=0.2": 0.1, "entropy20": 0.2}))
    told = {name.removeprefix("the unique tokens of "): c.verdict for name, c in found.items()}
    assert told == {
        "ict keep=0.05 are forks, more than those of random keep=0.05": "supported",
        "ict keep=0.05 are forks, more than those of entropy20": "contradicted",
        "ict keep=0.2 are forks, more than those of random keep=0.2": "undecided",
        "ict keep=0.2 are forks, more than those of entropy20": "contradicted",
    }


@pytest.mark.parametrize("right", [0, 4])
def test_what_shows_no_luck_is_not_said_to_be_tested(right: int) -> None:
    """As where one method solves everything and the other nothing."""
    counts = {"ict": np.full((3, 20), right), "grpo": np.zeros((3, 20), dtype=int)}
    for claim in accuracy_claims(scores_of(counts, 4, [1]), "chain"):
        assert claim.verdict == "undecided" and "told from 0" not in claim.sentence
        assert claim.sentence.endswith("the same in every one of them, so there is no test.")


def test_what_was_not_run_is_not_judged() -> None:
    assert accuracy_claims(comparison({"grpo": 0.0, "random": 0.0}), "chain") == []
    claim = accuracy_claims(comparison({BEFORE: 0.0, "ict": 0.0}), "chain")[0]
    assert vars(claim.numbers)["rival"].startswith("its gain")
    assert fork_claims({"random": [0.1]}) == entropy_claims({"stapo": [np.ones(9)]}) == []


def test_forks_are_compared_seed_by_seed() -> None:
    recall = {"ict": [0.12, 0.13, 0.125, 0.12], "random": [0.121, 0.12, 0.13, 0.119]}
    found = by_name(fork_claims({**recall, "entropy20": [0.6, 0.61, 0.59, 0.6]}))
    assert [claim.verdict for claim in found.values()] == ["undecided", "contradicted"]
    assert "problem" not in next(iter(found.values())).sentence


def test_ceilings_and_floors_are_named_beside_each_claim_that_they_touch() -> None:
    scores = comparison({BEFORE: 0.0, "ict": 0.0, "grpo": 9.0, "random": 0.0})
    found = by_name(accuracy_claims(scores, "chain"))
    level = 100 * scores["pass@1"]["grpo"].mean()
    named = f"ceiling: pass@1 of grpo is {level:.1f} %"
    assert level > 95
    touched = {name for name, claim in found.items() if named in claim.caveats}
    assert touched == {
        "ict is better than grpo on chain at this size: pass@1",
        "ict gains more in pass@4 than in pass@1 over grpo, on chain at this size",
    }
    assert not any(
        "of random" in caveat or "of ict" in caveat
        for claim in found.values()
        for caveat in claim.caveats
    )


def test_a_loss_in_both_is_never_a_gain() -> None:
    """Whatever the losses, pass@4 that does not rise gains no more than pass@1."""
    for seed in range(8):
        scores = comparison({"ict": -0.5 * seed, "grpo": 1.0}, N=64, seed=seed)
        claims = by_name(accuracy_claims(scores, "chain"))
        name = "ict gains more in pass@4 than in pass@1 over grpo, on chain at this size"
        assert claims[name].verdict != "supported"

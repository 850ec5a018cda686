"""Verdicts: what they say, when, and that they say it with the numbers they rest on."""

from collections.abc import Mapping

import numpy as np
import pytest
from made_results import accuracy_claims, by_name, variant
from worlds import World

from ictcli.compare import claims
from ictcli.compare.entropy_claims import entropy_claims
from ictcli.compare.judging import holm, judged
from ictcli.compare.run import study_claims
from ictcli.compare.run_means import TrainedTokens
from ictcli.compare.statistics import BEFORE, evidence, scores_of

GAINS = "ict gains more in pass@4 than in pass@1 over grpo, on chain at this size"


def comparison(shifts: dict[str, float], S: int = 5, N: int = 256, seed: int = 0):
    drawn = World().counts(np.random.default_rng(seed), 1, S, N, list(shifts.values()))[0]
    return scores_of(dict(zip(shifts, drawn, strict=True)), 8, [1, 4])


def alike(*labels: str):
    return comparison(dict.fromkeys(labels, 0.0), N=64)


def better(rival: str, metric: str = "pass@1") -> str:
    return f"ict is better than {rival} on chain at this size: {metric}"


def fork_claims(recall: dict[str, list[float]], kept: Mapping[str, float] = {}):
    tests = claims.fork_tests(
        {variant(label): np.array(seeds)[:, None] for label, seeds in recall.items()},
        {
            variant(label): TrainedTokens(tokens_kept_share=share, share_kept=share)
            for label, share in kept.items()
        },
    )
    return by_name(judged(tests))


def test_a_method_that_is_better_worse_or_alike_is_called_so() -> None:
    scores = comparison({BEFORE: -2, "ict": 0.0, "grpo": -1.5, "random": 1.5, "stapo": 0.0})
    found = accuracy_claims(scores, {"ict": (0.1, 0.1), "random": (0.11, 0.11)})
    for metric in ("pass@1", "pass@4"):
        assert found[better("grpo", metric)].verdict == "supported"
        assert found[better("random", metric)].verdict == "contradicted"
        assert found[better("stapo", metric)].verdict == "undecided"
    assert not any(BEFORE in name or "than ict" in name for name in found)
    words = found[better("random")].sentence
    assert words.endswith("They trained 10.0 % and 11.0 % of the tokens.")


@pytest.mark.parametrize(
    ("own", "other", "said"),
    [
        ((0.05, 0.05), (0.1, 0.1), "5.0 % and 10.0 % of the tokens: not the same number"),
        ((0.91, 0.1), (0.90, 0.05), "10.0 % and 5.0 % after the dense warm-up: not the same"),
        ((1.0, None), (1.0, None), "every step, so the two are one method."),
    ],
)
def test_random_tokens_of_another_number_decide_nothing(
    own: tuple[float, float | None], other: tuple[float, float | None], said: str
) -> None:
    scores = comparison({"ict": 0.0, "grpo": -1.5, "random": 1.5})
    found = accuracy_claims(scores, {"ict": own, "random": other})
    claim = found[better("random")]
    assert said in claim.sentence
    assert claim.verdict == ("undecided" if "not the same" in said else "contradicted")
    assert found[better("grpo")].verdict == "supported"


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_a_sentence_holds_the_numbers_and_a_minus_is_no_hyphen(shift: float) -> None:
    scores = comparison({"ict": 0.0, "grpo": shift})
    claim = accuracy_claims(scores)[better("grpo")]
    known = evidence(scores["pass@1"]["ict"], scores["pass@1"]["grpo"]).difference()
    test = claim.test
    assert test and (test.value, test.low, test.p) == (known.value, known.low, known.p)
    assert (test.detectable, test.rival, test.tests) == (known.detectable, "grpo", 3)
    for number in (abs(test.value), test.low or 0, test.high or 0, test.detectable or 0):
        assert f"{100 * number:.1f}".replace("-", "\u2212") in claim.sentence
    assert "5 seeds and 256 problems" in claim.sentence and "over 3 tests" in claim.sentence
    assert "-" not in claim.sentence


def test_each_family_is_corrected_by_itself() -> None:
    labels = (BEFORE, "ict", "grpo", "random", "stapo", "entropy20")
    tests = [each.test for each in accuracy_claims(alike(*labels)).values() if each.test]
    for family, rivals in (("main", {"grpo", "random"}), ("second", {"stapo", "entropy20"})):
        members = [test for test in tests if test.family == family]
        assert {test.rival for test in members} == rivals | {
            "its gain in pass@1" for _ in range(family == "main")
        }
        assert {test.tests for test in members} == {len(members)}
        ps = [test.p or 0 for test in members]
        assert [test.p_holm for test in members] == pytest.approx(holm(ps))


def test_what_shares_no_seed_is_not_judged() -> None:
    scores = comparison({BEFORE: -2, "ict": 0.0, "grpo": -1.5, "random": 1.5})
    for values in scores.values():
        values["ict"][:2], values["grpo"][2:], values["random"][2] = np.nan, np.nan, np.nan
    found = accuracy_claims(scores)
    assert not any("grpo" in name for name in found)
    tests = [claim.test for claim in found.values() if claim.test]
    assert {test.seeds for test in tests if test.rival == "random"} == {2}
    assert {test.tests for test in tests} == {len(found)}
    nan = float("nan")
    assert fork_claims({"ict": [0.1, nan], "random": [nan, 0.2]}) == {}
    (claim,) = fork_claims({"ict": [0.1, 0.2, nan], "random": [0.1, 0.3, 0.2]}).values()
    assert claim.test and claim.test.seeds == 2


def test_one_seed_decides_nothing() -> None:
    scores = comparison({BEFORE: -2, "ict": 1, "grpo": -1, "random": -1}, S=1, N=12)
    for claim in accuracy_claims(scores).values():
        assert claim.verdict == "undecided" and "one seed cannot tell" in claim.sentence


def test_what_pass_4_gains_more_than_pass_1() -> None:
    """By hand: grpo has half of each problem's samples right; ict adds samples, or problems."""
    base = np.tile([8, 0, 8, 0], (3, 20))
    wider = np.where(np.arange(80) % 2, 2, 6) + np.zeros((3, 1), dtype=int)
    surer = np.tile([2, 2, 2, 2], (3, 20))
    sharper, surest = (np.tile(each, (3, 20)) for each in ([5, 3, 2, 1], [8, 8, 8, 2]))
    noise = np.random.default_rng(0).integers(0, 2, (3, 80))
    spread = scores_of({"grpo": base, "ict": np.clip(wider + noise, 0, 8)}, 8, [1, 4])
    assert accuracy_claims(spread)[GAINS].verdict == "supported"
    sharpened = scores_of({"grpo": surer, "ict": sharper + noise}, 8, [1, 4])
    claim = accuracy_claims(sharpened)[GAINS]
    one, many = sharpened["pass@1"], sharpened["pass@4"]
    expected = (many["ict"] - many["grpo"]).mean() - (one["ict"] - one["grpo"]).mean()
    assert claim.test and claim.test.value == pytest.approx(expected)
    assert claim.verdict == "contradicted"
    assert "grpo left 75.0 points to gain in pass@1" in claim.sentence
    full = scores_of({"grpo": surer, "ict": surest - noise}, 8, [1, 4])
    claim = accuracy_claims(full)[GAINS]
    assert claim.verdict == "not testable"
    assert "grpo left 21.4 points to gain in pass@4, less than pass@1 gained" in claim.sentence


def test_a_method_that_only_does_damage_gains_nothing() -> None:
    """A pass@4 that loses less than pass@1 does is no gain, and one that stays is none either."""
    few, rng = np.full((3, 80), 3), np.random.default_rng(0)
    scores = scores_of({"grpo": few, "ict": rng.integers(0, 2, (3, 80))}, 8, [1, 4])
    claim = accuracy_claims(scores)[GAINS]
    assert claim.verdict == "contradicted" and "So pass@4 loses:" in claim.sentence
    for metric in ("pass@4", "pass@1"):
        gain = 100 * (scores[metric]["ict"] - scores[metric]["grpo"]).mean()
        assert gain < 0 and f"\u2212{-gain:.1f}" in claim.sentence
    assert claim.test and claim.test.gain and claim.test.gain.differs
    sure = np.tile([8, 0, 8, 0], (3, 20))  # pass@4 of a tile: a half of grpo's, and as much after
    spread = np.clip(sure - 2, 0, 8) - rng.integers(0, 2, (3, 80)) * (sure > 0)
    claim = accuracy_claims(scores_of({"grpo": sure, "ict": spread}, 8, [1, 4]))[GAINS]
    assert claim.test and claim.test.value > 0.1 and (claim.test.p_holm or 1) < 0.05
    assert claim.verdict == "undecided" and "itself not significant" in claim.sentence


def test_a_swept_variant_meets_its_own_rivals_however_numbers_are_typed() -> None:
    def pairs(*labels: str) -> set[str]:
        names = [name for name in accuracy_claims(alike(*labels)) if " is better than " in name]
        return {name.split(" on chain")[0] for name in names}

    labels = ["grpo", "ict keep=0.1 warmup=0", "ict keep=0.3 warmup=0"]
    rivals = ["random keep=0.1 warmup=0", "entropy20 keep=0.3"]
    assert pairs(*labels, *rivals) == {
        "ict keep=0.1 warmup=0 is better than grpo",
        "ict keep=0.1 warmup=0 is better than random keep=0.1 warmup=0",
        "ict keep=0.1 warmup=0 is better than ict keep=0.3 warmup=0",
        "ict keep=0.3 warmup=0 is better than grpo",
        "ict keep=0.3 warmup=0 is better than entropy20 keep=0.3",
    }
    first, second, other = "ict keep=0.10 lr=1e-4", "ict keep=2e-1 lr=1e-4", "random keep=0.1"
    other += " lr=0.0001"
    assert pairs(first, second, other) == {
        f"{first} is better than {second}",
        f"{first} is better than {other}",
    }


def test_forks_are_claimed_of_each_share_of_a_sweep_seed_by_seed() -> None:
    rng = np.random.default_rng(0)
    means = {"ict keep=0.05": 0.1, "ict keep=0.2": 0.4, "random keep=0.05": 0.05}
    means |= {"random keep=0.2": 0.2, "entropy20": 0.6}
    recall = {label: (mean + rng.normal(0, 0.002, 5)).tolist() for label, mean in means.items()}
    kept = {"ict keep=0.05": 0.05, "random keep=0.05": 0.051, "ict keep=0.2": 0.2}
    found = fork_claims(recall, {**kept, "random keep=0.2": 0.1, "entropy20": 0.2})
    verdicts = {name.removeprefix("the unique tokens of "): c.verdict for name, c in found.items()}
    assert verdicts == {
        "ict keep=0.05 are forks, more than those of random keep=0.05": "supported",
        "ict keep=0.05 are forks, more than those of entropy20": "contradicted",
        "ict keep=0.2 are forks, more than those of random keep=0.2": "undecided",
        "ict keep=0.2 are forks, more than those of entropy20": "contradicted",
    }
    assert not any("problem" in claim.sentence for claim in found.values())


@pytest.mark.parametrize("right", [0, 4])
def test_what_never_varies_is_not_said_to_be_tested(right: int) -> None:
    """As where one method solves everything and the other nothing."""
    counts = {"ict": np.full((3, 20), right), "grpo": np.zeros((3, 20), dtype=int)}
    for claim in accuracy_claims(scores_of(counts, 4, [1])).values():
        assert "significant" not in claim.sentence
        assert claim.verdict == ("undecided" if right else "not testable")
        why = "the same in every one of them, so there is no test."
        assert claim.sentence.endswith(why if right else "pass@1 of both is under 5.0 %.")


def test_what_was_not_run_is_not_judged() -> None:
    assert accuracy_claims(alike("grpo", "random")) == {}
    (claim,) = accuracy_claims(alike(BEFORE, "ict")).values()
    assert claim.test and claim.test.rival.startswith("its gain")
    assert fork_claims({"random": [0.1]}) == {}
    assert entropy_claims({variant("stapo"): [np.ones(9)]}) == []


def test_ceilings_and_floors_are_named_beside_each_claim_that_they_touch() -> None:
    scores = comparison({BEFORE: 0.0, "ict": 0.0, "grpo": 9.0, "random": 0.0})
    level = 100 * scores["pass@1"]["grpo"].mean()
    named = f"ceiling: pass@1 of grpo is {level:.1f} %"
    assert level > 95
    found = accuracy_claims(scores)
    assert {name for name in found if named in found[name].caveats} == {better("grpo"), GAINS}
    every = [caveat for claim in found.values() for caveat in claim.caveats]
    assert all("of grpo" in caveat for caveat in every)


def test_at_a_ceiling_nothing_is_tested_and_nothing_is_corrected_for_it() -> None:
    scores = comparison({"ict": 8.0, "grpo": 9.0, "random": 0.0})
    found = accuracy_claims(scores)
    claim = found[better("grpo", "pass@4")]
    assert claim.verdict == "not testable" and "leaves too little to gain" in claim.sentence
    assert claim.test and claim.test.p_holm is None and claim.test.low is not None
    tested = [each for each in found.values() if each.verdict != "not testable"]
    assert {each.test.tests for each in tested if each.test} == {len(tested)}


def test_our_own_variants_cost_the_paper_s_claims_nothing() -> None:
    shifts = {"ict": 0.0, "grpo": -0.3, "random": 0.2, "tempo": 0.1, "ict score=u*h": 0.0}
    shifts |= {"ict lr=0.001": 0.1, "ict kl=0.1": 0.0}
    scores = comparison(shifts)
    plain = {
        metric: {v: rows[v] for v in ("ict", "grpo", "random")} for metric, rows in scores.items()
    }
    alone, all_of_them = accuracy_claims(plain), accuracy_claims(scores)
    for name, claim in alone.items():
        assert all_of_them[name].numbers == claim.numbers and not all_of_them[name].ours
    others = [claim for name, claim in all_of_them.items() if name not in alone]
    assert variant("ict control=none").is_paper() and variant("ict keep=0.2").is_paper()
    swept = accuracy_claims(comparison({"ict lr=0.001": 0.0, "grpo lr=0.001": 0.3}))
    assert not swept["ict lr=0.001 is better than grpo lr=0.001 on chain at this size: pass@1"].ours
    assert others and all(claim.ours and claim.family == "variants" for claim in others)


def test_a_study_s_main_question_is_corrected_over_all_its_tasks() -> None:
    variants = [variant(label) for label in ("ict", "grpo", "tempo")]
    tests = {
        task: claims.accuracy_tests(
            comparison({"ict": 0.0, "grpo": -s, "tempo": 0.0}), task, variants
        )
        for task, s in (("a", 0.3), ("b", 0.0))
    }
    found = study_claims(tests, 0.05)
    ps = [claim.test.p or 0 for its in found.values() for claim in its if claim.test]
    holms = [claim.test.p_holm for its in found.values() for claim in its if claim.test]
    assert len(ps) == 6 and holms == pytest.approx(holm(ps))
    assert not any("tempo" in claim.name for its in found.values() for claim in its)


def test_methods_that_are_alike_are_called_equal_and_say_within_what() -> None:
    drawn = World(run=0.02).counts(np.random.default_rng(0), 1, 5, 3000, [0.0, 0.0])[0]
    found = accuracy_claims(scores_of(dict(zip(("ict", "grpo"), drawn, strict=True)), 8, [1]))
    claim = found[better("grpo")]
    assert claim.verdict == "equal" and "equal within 3.0 points" in claim.sentence

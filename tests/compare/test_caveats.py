"""Runs that crashed: which are, what a comparison without them says, and that none is made up."""

import numpy as np
import pytest
from made_results import accuracy_claims
from worlds import World

from ictcli.compare.notes import crashed_runs, of_crashes, without
from ictcli.compare.statistics import BEFORE, Scores, difference, scores_of


def crashing(rng: np.random.Generator, crashes: list[int], S: int = 5, N: int = 128) -> Scores:
    """ict and grpo, alike but for the runs of ict that crash."""
    counts = World().counts(rng, 1, S, N, [0.0, 0.0])[0]
    counts[0, crashes] = rng.binomial(8, 0.02, (len(crashes), N))
    return scores_of(dict(zip(("ict", "grpo"), counts, strict=True)), 8, [1, 4])


def test_runs_that_crash_are_found_and_no_others_are() -> None:
    rng = np.random.default_rng(0)
    for crashes in ([], [2], [0, 4]) * 8:
        found = crashed_runs(crashing(rng, crashes), {})
        assert found == ({"ict": crashes} if crashes else {})


@pytest.mark.parametrize(
    ("means", "unparsed", "crashed"),
    [
        ([0.4, 0.41, 0.1], [0.0] * 3, [2]),
        ([0.4, 0.41, 0.3], [0.0] * 3, []),  # more than half of the others
        ([0.04, 0.04, 0.0], [0.0] * 3, []),  # less than 10 points lower
        ([0.4, 0.1], [0.0] * 2, []),  # of two runs, which?
        ([0.4, np.nan, 0.1], [0.0, np.nan, 0.0], []),
        ([0.4, 0.41, 0.3], [0.0, 0.1, 0.6], [2]),  # answers cannot be read
        ([0.4, 0.41, 0.4], [0.5, 0.6, 0.6], []),  # nor can anyone's
    ],
)
def test_the_rule(means: list[float], unparsed: list[float], crashed: list[int]) -> None:
    values = np.array(means)[:, None] * np.ones(4)
    found = crashed_runs(
        {"pass@1": {BEFORE: 0 * values, "ict": values}}, {"ict": np.array(unparsed)}
    )
    assert found.get("ict", []) == crashed


def test_the_others_are_compared_without_them() -> None:
    scores = crashing(np.random.default_rng(1), [3])
    held = without(scores, crashed_runs(scores, {}))["pass@1"]
    assert np.isnan(held["ict"][3]).all() and not np.isnan(held["grpo"]).any()
    mixed = difference(scores["pass@1"]["ict"], scores["pass@1"]["grpo"])
    rest = difference(held["ict"], held["grpo"])
    assert (mixed.seeds, rest.seeds) == (5, 4)
    assert (mixed.detectable or 0) > 2 * (rest.detectable or 1)  # the crash hides the rest


def test_a_mixture_is_named_in_a_note_and_beside_its_claims() -> None:
    scores = crashing(np.random.default_rng(2), [1])
    crashed = crashed_runs(scores, {})
    (note,) = of_crashes(crashed, [7, 8, 9, 10, 11])
    assert note.startswith("The run of seed 8 of ict")
    claims = accuracy_claims(scores, crashed=crashed).values()
    assert claims and all("mixture: 1 run of ict crashed" in claim.caveats for claim in claims)


@pytest.mark.parametrize(("S", "N", "n"), [(3, 6, 2), (5, 30, 4)])
def test_the_chance_of_few_samples_is_no_crash(S: int, N: int, n: int) -> None:
    """Runs of one model, alike, on problems that are hard to most."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(100):
        chance = rng.beta(0.5, 1.5, N)
        runs = scores_of({"ict": rng.binomial(n, chance, (S, N))}, n, [1])
        found += bool(crashed_runs(runs, {}))
    assert found <= 1

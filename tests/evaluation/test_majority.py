"""maj@n against counting by hand."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ictcli.evaluation.majority import majority
from ictcli.evaluation.samples import Sample
from ictcli.rewards import Verdict, find_verifier
from ictcli.rewards.verifiers import Status

SPELLINGS = {
    "2": ["2", "2.0", r"\frac{4}{2}", "x = 2"],
    "1/2": ["0.5", r"\frac12", "1/2"],
    "7": ["7", "+7", "7."],
    "y": ["y"],
}
MEANING = {text: value for value, texts in SPELLINGS.items() for text in texts}


def sample(status: Status, extracted: str = "") -> Sample:
    return Sample(id="p", status=status, extracted=extracted, tokens=1, finished=True)


def by_hand(row: list[Sample], meaning: dict[str, str]) -> float:
    votes = Counter(
        "right" if one.status == "correct" else meaning[one.extracted]
        for one in row
        if one.status in ("correct", "wrong")
    )
    best = [name for name, count in votes.items() if count == max(votes.values())]
    return ("right" in best) / max(len(best), 1)


wrong_maths = st.sampled_from(sorted(MEANING)).map(lambda text: sample("wrong", text))
others = st.sampled_from(
    [sample("correct", "3"), sample("correct", "6/2"), sample("unparsed"), sample("timeout", "9!!")]
)


@given(st.lists(st.lists(wrong_maths | others, min_size=6, max_size=6), min_size=1, max_size=4))
def test_equal_answers_vote_together_in_whatever_dress(rows: list[list[Sample]]) -> None:
    found = majority(rows, find_verifier("math"))
    assert found is not None
    assert found.tolist() == pytest.approx([by_hand(row, MEANING) for row in rows])


wrong_letters = st.sampled_from("ABD").map(lambda letter: sample("wrong", letter))


@given(st.lists(wrong_letters | others, min_size=1, max_size=12))
def test_letters_vote_as_letters(row: list[Sample]) -> None:
    found = majority([row], find_verifier("choice"))
    assert found is not None
    assert found[0] == pytest.approx(by_hand(row, {letter: letter for letter in "ABD"}))


def test_ties_count_their_fraction() -> None:
    row = [sample("correct", "1"), sample("wrong", "2"), sample("wrong", "3"), sample("unparsed")]
    found = majority([row, row[1:], [row[3]]], find_verifier("integer"))
    assert found is not None and found.tolist() == pytest.approx([1 / 3, 0, 0])


def test_integers_vote_together_in_whatever_dress() -> None:
    texts = ["1,080", "1080", "$1080", "1080.0"]
    row = [sample("wrong", text) for text in texts] + [sample("correct", "5")] * 3
    found = majority([row, [*row, sample("correct", "5")]], find_verifier("integer"))
    assert found is not None and found.tolist() == [0, 0.5]


def test_a_verifier_that_extracts_nothing_has_no_majority() -> None:
    def even(response: str, gold: str) -> Verdict:
        return Verdict("wrong" if len(response) % 2 else "correct")

    assert majority([[sample("correct"), sample("wrong")]], even) is None

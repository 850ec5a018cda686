"""The letter that a response decides on."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ictcli.rewards import grade

EXAM = Path(__file__).with_name("choices.tsv")
"""A label (a letter, or - for none) and a response a line."""

DECISIONS = [
    "The answer is {}.", "So the correct option is ({}).", "Option {} is correct.",
    "{} is the right answer.", "It must be **{}**.", "Therefore, {}.", "I choose {}.",
    "That leaves {}.", "Answer: {}",
]  # fmt: skip
SILENT = [
    "Could it be {}?", "If the answer is {}, then it is heavy.", "Maybe the answer is {}.",
    "My first thought was {}.", "Some say the answer is {}.", "One option is {}.",
    "The answer might be {}.", "This rules nothing out because {} is correct.",
]  # fmt: skip
REFUSALS = ["But {} is wrong.", "It is not {}.", "{} cannot be the answer.", "Wait, that is wrong."]
LETTERS = st.lists(st.sampled_from("ABCDEFGHIJ"), min_size=2, max_size=2, unique=True)


def letter(response: str) -> str:
    """The letter read from a response; - for none."""
    verdict = grade(response, "A", "choice")
    return "-" if verdict.status == "unparsed" else verdict.extracted


@given(LETTERS, st.sampled_from(DECISIONS), st.sampled_from(DECISIONS))
def test_the_last_decision_counts(letters: list[str], first: str, last: str) -> None:
    response = f"{first.format(letters[0])}\n{last.format(letters[1])}"
    assert letter(response) == letters[1]


@given(LETTERS, st.sampled_from(DECISIONS), st.sampled_from(SILENT))
def test_a_question_or_a_supposition_decides_nothing(
    letters: list[str], decision: str, silent: str
) -> None:
    said, supposed = decision.format(letters[0]), silent.format(letters[1])
    assert letter(supposed) == "-"
    assert letter(f"{supposed} {said}") == letter(f"{said}\n{supposed}") == letters[0]


@given(LETTERS, st.sampled_from(DECISIONS), st.sampled_from(REFUSALS))
def test_a_refused_decision_is_none(letters: list[str], decision: str, refusal: str) -> None:
    said = decision.format(letters[0])
    assert letter(f"{said}\n{refusal.format(letters[0])}") == "-"
    if "{}" in refusal:
        assert letter(f"{said}\n{refusal.format(letters[1])}") == letters[0]


@given(LETTERS, st.sampled_from(DECISIONS), st.sampled_from([" or ", " and ", "/", ", or maybe "]))
def test_a_doubled_letter_is_no_decision(letters: list[str], decision: str, joint: str) -> None:
    assert letter(decision.format(joint.join(letters))) == "-"


@pytest.mark.parametrize("line", EXAM.read_text(encoding="utf-8").splitlines())
def test_a_response_is_read_as_labelled(line: str) -> None:
    label, response = line.split("\t")
    texts = [] if label == "I" else ["10 m", "12 m", "15 m", "20 m"]
    verdict = grade(response.replace("\\n", "\n"), "A", "choice", choices=texts)
    assert ("-" if verdict.status == "unparsed" else verdict.extracted) == label

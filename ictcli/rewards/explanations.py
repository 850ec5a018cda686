"""Explain a verdict: where the answer was found, and how the answer and the gold were parsed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ictcli.rewards import choice
from ictcli.rewards.answers import Located
from ictcli.rewards.maths.compare import content, describe
from ictcli.rewards.verifiers import Verdict, Verifier

SOURCES = {
    "": "none",
    "box": "the last box",
    "boxes": "the boxes of the last sentence",
    "hashes": "after ####",
    "pattern": "the match of the pattern",
    "words": "the sentence that decides on a letter",
    "response": "the whole response",
}
"""Description, for the user, of each place where an answer may be found."""


@dataclass(frozen=True)
class Reading:
    """The answer or the gold: its text, and `meaning`, a description of how the text was parsed.
    The meaning is empty if the text was not parsed, or if the verifier gives no description."""

    text: str
    meaning: str = ""


@dataclass(frozen=True)
class Explanation:
    """A verdict, with the answer and the gold as they were parsed."""

    verdict: Verdict
    source: str
    """Where the answer was found in the response: a key of SOURCES."""
    answer: Reading
    gold: Reading


class Row(NamedTuple):
    """A response to judge, its gold, and the other inputs that its verifier may need."""

    response: str
    gold: str
    choices: Sequence[str]
    found: Located
    question: str
    columns: Mapping[str, Any]


def explained(verifier: Verifier, verdict: Verdict, row: Row) -> Explanation:
    """Return the explanation of a verdict of `grade`."""
    gold, (located, source, *_) = row.gold, row.found
    if verifier.judge is choice.verdict:
        is_letter = verdict.status in ("correct", "wrong")
        meaning = f"the letter {verdict.extracted}" if is_letter else ""
        answer = Reading(verdict.extracted if located is None else located, meaning)
        right = Reading(gold, f"the letter {choice.gold_letter(gold)}")
        return Explanation(verdict, source or "words" * is_letter, answer, right)
    if verifier.golds is None:
        return Explanation(verdict, source, Reading(verdict.extracted), Reading(gold))
    answer = Reading(located, describe(located)) if located else Reading("")
    right = Reading(gold, describe(content(gold)))
    return Explanation(verdict, source if located else "", answer, right)

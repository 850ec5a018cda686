"""The grounds of a verdict: what was taken for the answer, and how both sides were read."""

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
    "response": "read by the verifier",
}
"""Where an answer stands, in words."""


@dataclass(frozen=True)
class Reading:
    """One side of a comparison: its text, and how it was read, in words. `meaning` is empty where
    the text was not read, or only the verifier itself knows how."""

    text: str
    meaning: str = ""


@dataclass(frozen=True)
class Explanation:
    """A verdict with its grounds."""

    verdict: Verdict
    source: str
    """Where the answer is in the response: one of SOURCES."""
    answer: Reading
    gold: Reading


class Row(NamedTuple):
    """A response to judge, with its gold."""

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

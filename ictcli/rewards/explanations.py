"""Why a verdict is what it is: what was taken for the answer, how both sides were read, and what
decided."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ictcli.rewards import choice
from ictcli.rewards.answers import Located
from ictcli.rewards.builtin import math_at_once
from ictcli.rewards.maths.compare import content, describe
from ictcli.rewards.maths.latex import flat, tidy
from ictcli.rewards.verifiers import COPIED, UNFINISHED, Verdict, Verifier

RULES = {
    "no answer": "there is no answer to compare",
    "verbatim": "answer and gold are the same letter by letter",
    "unreadable": "the answer cannot be read",
    "layout": "answer and gold differ in layout only",
    "numbers": "exact numbers were compared",
    "parts": "what both are was compared, part by part: kind, brackets, units, exact numbers",
    "algebra": "compared in a worker process: part by part, and by algebra",
    "form": "answer and gold are equal, but the answer is no result",
    "letters": "the letter was compared with the gold's",
    "limit": "the comparison was stopped",
    "verifier": "the verifier's own function decided",
}
"""What decides a verdict, in words."""


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
    """Where the answer stands in the response: one of SOURCES."""
    answer: Reading
    gold: Reading
    rule: str
    """What decided: one of RULES."""

    @property
    def why(self) -> str:
        """The rule in words, with the verdict's reason if it has one."""
        reason = self.verdict.reason
        return RULES[self.rule] + (f": {reason}" if reason else "")


class Row(NamedTuple):
    """What is judged."""

    response: str
    gold: str
    choices: Sequence[str]
    found: Located
    question: str
    columns: Mapping[str, Any]


def explained(verifier: Verifier, verdict: Verdict, row: Row) -> Explanation:
    """The explanation of a verdict of `grade`."""
    _, gold, _, found, *_ = row
    if verifier.judge is choice.verdict:
        return _of_choice(verdict, gold, found)
    if verifier.golds is None:
        rule = "limit" if verdict.status == "timeout" else "verifier"
        rule = rule if found.answer is not None else "no answer"
        return Explanation(verdict, found.source, Reading(verdict.extracted), Reading(gold), rule)
    right = Reading(gold, describe(content(gold)))
    if not found.answer:
        return Explanation(verdict, "", Reading(""), right, "no answer")
    answer = Reading(found.answer, describe(found.answer))
    return Explanation(verdict, found.source, answer, right, _rule(answer, right, verdict))


def _rule(answer: Reading, gold: Reading, verdict: Verdict) -> str:
    if verdict.status == "timeout":
        return "limit"
    if verdict.failed:
        return "verifier"
    if verdict.reason in (COPIED, UNFINISHED):
        return "form"
    if answer.text.strip() == gold.text.strip():
        return "verbatim"
    if verdict.status == "unparsed":
        return "unreadable"
    if verdict.status == "correct" and flat(tidy(answer.text)) == flat(tidy(gold.text)):
        return "layout"
    if math_at_once(answer.text, gold.text) is None:
        return "algebra"
    is_number = all(side.meaning.startswith("the number ") for side in (answer, gold))
    return "numbers" if is_number else "parts"


def _of_choice(verdict: Verdict, gold: str, found: Located) -> Explanation:
    read = verdict.status in ("correct", "wrong")
    meaning = f"the letter {verdict.extracted}" if read else ""
    answer = Reading(verdict.extracted if found.answer is None else found.answer, meaning)
    right = Reading(gold, f"the letter {choice.gold_letter(gold)}")
    if verdict.status == "timeout" or verdict.failed:
        rule = "limit" if verdict.status == "timeout" else "verifier"
    else:
        rule = "letters" if read else "unreadable" if found.answer else "no answer"
    return Explanation(verdict, found.source or "words" * read, answer, right, rule)

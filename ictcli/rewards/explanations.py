"""Why a verdict is what it is: what was taken for the answer, how both sides were read, and what
decided."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ictcli.rewards import choice
from ictcli.rewards.answers import Located, Source
from ictcli.rewards.maths.compare import content
from ictcli.rewards.maths.describe import same_layout
from ictcli.rewards.verifiers import COPIED, UNFINISHED, Answers, Verdict, Verifier

Rule = Literal[
    "no answer",
    "verbatim",
    "unreadable",
    "layout",
    "numbers",
    "parts",
    "algebra",
    "form",
    "letters",
    "limit",
    "verifier",
]
"""What decided a verdict; `RULES` says it in words."""

RULES: dict[Rule, str] = {
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

SOURCES: dict[Source, str] = {
    "": "none",
    "box": "the last box",
    "boxes": "the boxes of the last sentence",
    "hashes": "after ####",
    "pattern": "the match of the pattern",
    "words": "the sentence that decides on a letter",
    "response": "read by the verifier",
}


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
    source: Source
    """Where the answer stands in the response."""
    answer: Reading
    gold: Reading
    rule: Rule
    """What decided."""

    @property
    def why(self) -> str:
        """The rule in words, with the verdict's reason if it has one."""
        reason = self.verdict.reason
        return RULES[self.rule] + (f": {reason}" if reason else "")


def explained(
    verifier: Verifier,
    verdict: Verdict,
    response: str,
    gold: str,
    choices: Sequence[str],
    found: Located,
) -> Explanation:
    """The explanation of a verdict of `grade`."""
    if verifier.name == "choice":
        return _of_choice(verdict, gold, choice.decision(response, found, choices))
    if verifier.answers is None:
        rule: Rule = "limit" if verdict.status == "timeout" else "verifier"
        rule = rule if found.answer is not None else "no answer"
        return Explanation(verdict, found.source, Reading(verdict.extracted), Reading(gold), rule)
    read = verifier.answers.describe or _unread
    right = Reading(gold, read(content(gold)))
    if not found.answer:
        return Explanation(verdict, "", Reading(""), right, "no answer")
    answer = Reading(found.answer, read(found.answer))
    rule = _rule(verifier.answers, answer, right, verdict)
    return Explanation(verdict, found.source, answer, right, rule)


def _unread(_: str) -> str:
    return ""


def _rule(answers: Answers, answer: Reading, gold: Reading, verdict: Verdict) -> Rule:
    if verdict.status == "timeout":
        return "limit"
    if verdict.failed or answers.describe is None:
        return "verifier"
    if verdict.reason in (COPIED, UNFINISHED):
        return "form"
    if answer.text.strip() == gold.text.strip():
        return "verbatim"
    if verdict.status == "unparsed":
        return "unreadable"
    if verdict.status == "correct" and same_layout(answer.text, gold.text):
        return "layout"
    if answers.quick(answer.text, gold.text) is None:
        return "algebra"
    is_number = all(side.meaning.startswith("the number ") for side in (answer, gold))
    return "numbers" if is_number else "parts"


def _of_choice(verdict: Verdict, gold: str, decision: choice.Decision) -> Explanation:
    letters = decision.letters
    names = ", ".join(letters)
    meaning = f"the letter{'s' * (len(letters) > 1)} {names}" if letters else ""
    answer = Reading(names if decision.answer is None else decision.answer, meaning)
    right = Reading(gold, f"the letter {choice.gold_letter(gold)}")
    if not letters and not decision.answer:
        return Explanation(verdict, "", answer, right, "no answer")
    rule: Rule = "letters" if len(letters) == 1 else "unreadable"
    return Explanation(verdict, decision.source, answer, right, rule)

"""Multiple choice: the letter that a response decides on, or the text of a choice."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ictcli.rewards import statement
from ictcli.rewards.answers import Located
from ictcli.rewards.builtin import math_at_once
from ictcli.rewards.maths.compare import LONGEST
from ictcli.rewards.maths.latex import balanced, flat, tidy
from ictcli.rewards.verifiers import VERIFIERS, Verdict, Verifier

_BOX = re.compile(r"\\boxed\s?\{([^{}]{1,30}|\\[a-z]+\{[^{}]{1,30}\})\}")
_WORD = re.compile(r"[^\W\d_]+|\d+(?:[.,]\d+)*|\S")


class Decision(NamedTuple):
    """What a response decides on."""

    letters: str
    """Empty without a letter; several if it names several."""
    answer: str | None
    """The text in a box, after `####` or of a pattern; None if the letters stand in words."""
    source: str
    missing: str
    """Why there is no letter, if there is none."""


def decision(response: str, found: Located, choices: Sequence[str]) -> Decision:
    """What a response, as `statement.shown` gives it, decides on, given the marked answer in it, if
    there is one: else the letter of the last statement (`statement`). With `choices`, the texts of
    A, B, ..., the answer may be such a text."""
    answer, source, missing = found
    if answer is not None:
        letters = letter_of(answer, choices)
        boxed = {letter_of(box, ()) for box in set(_BOX.findall(response))} - {""}
        if source == "box" and len(letters) == 1 and boxed - {letters}:
            return Decision("".join(sorted(boxed)), answer, source, "no letter")
        if letters and source != "pattern" and not _upheld(response, answer, letters):
            return Decision("", answer, source, "the letter is not upheld")
        return Decision(letters, answer, source, "no letter")
    letters = statement.stated(response, naming(choices))
    return Decision(letters, None, "words" if letters else "", missing)


def _upheld(response: str, answer: str, letters: str) -> bool:
    """Whether the words around the last place of an answer leave it the answer."""
    before, _, after = response.rpartition(answer)
    before = re.sub(r"(\\(?:boxed|fbox)\s*\{|####)\s*$", "", before)
    return statement.upheld(before, after.lstrip("}"), letters)


def verdict(decision: Decision, gold: str, choices: Sequence[str]) -> Verdict:
    """The verdict on a decision, given the gold letter. Two letters are unparsed."""
    letters, extracted = decision.letters, (decision.answer or "")[:200]
    if len(letters) != 1:
        return Verdict("unparsed", extracted, "two letters" if letters else decision.missing)
    if choices and ord(letters) - 65 >= len(choices):
        return Verdict("unparsed", extracted, f"no choice {letters}")
    return Verdict("correct" if letters == gold_letter(gold) else "wrong", letters)


VERIFIERS["choice"] = Verifier("choice", verdict)


def gold_letter(gold: str) -> str:
    """The letter of a gold: `C`, `(C)`, `c.`."""
    return gold.strip().strip("().").upper()


def letter_of(answer: str, choices: Sequence[str]) -> str:
    """The letter of an answer: empty if there is none, several if it names several."""
    if len(answer) > LONGEST or not balanced(answer):
        return ""
    of_text = [chr(65 + place) for place, choice in enumerate(choices) if same(answer, choice)]
    text = statement.plain(answer)
    if re.fullmatch(r"\(?[a-j]\)?\.?", text):
        text = text.upper()
    letters = statement.letter_of(text, naming(choices))
    return "".join(dict.fromkeys([*letters, *of_text]))


def naming(choices: Sequence[str]) -> statement.Naming | None:
    """How `statement` finds the choices that are a text; None if they are unknown."""
    if not choices:
        return None
    known = [_words(statement.plain(choice)) for choice in choices]

    def named(text: str) -> str:
        words = _words(text)
        return "".join(chr(65 + place) for place, one in enumerate(known) if one == words)

    return named


def _words(text: str) -> str:
    """A plain text for comparison: words and signs in small letters, without a first article."""
    words = _WORD.findall(text.lower().strip(" .,:;"))
    return " ".join(words[1:] if words[:1] in (["the"], ["a"], ["an"]) else words)


def same(answer: str, choice: str) -> bool:
    """Whether an answer is the text of a choice, as words or as mathematics without algebra."""
    if _layout(answer) == _layout(choice):
        return bool(choice.strip())
    found = math_at_once(answer, choice)
    return found is not None and found.status == "correct"


@lru_cache(maxsize=256)
def _layout(text: str) -> str:
    return flat(tidy(text)).lower()

"""Multiple choice: the letter that a response decides on, or the text of a choice."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ictcli.rewards import decisions
from ictcli.rewards.answers import LONGEST_AT_ONCE, Located, Source, located
from ictcli.rewards.maths.compare import LONGEST, UndecidedError, compare
from ictcli.rewards.maths.latex import balanced, flat, tidy
from ictcli.rewards.verifiers import Verdict

_BOXES = re.compile(r"\\(?:boxed|fbox)\s*+\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*+\}){0,300}+)\}")
_WORD = re.compile(r"[^\W\d_]+|\d+(?:[.,]\d+)*|\S")


class Decision(NamedTuple):
    """What a response decides on."""

    letters: str
    """Empty without a letter; several if it names several."""
    answer: str | None
    """The text in a box, after `####` or of a pattern; None if the letters stand in words."""
    source: Source
    missing: str
    """Why there is no letter, if there is none."""


def judge(response: str, gold: str, choices: Sequence[str] = ()) -> Verdict:
    """The verdict on a response, given the gold letter. With `choices`, the texts of A, B, ..., the
    answer may be such a text. Without a box, it is the letter that the words decide on
    (`decisions`). Two letters are unparsed."""
    return verdict(decision(response, located(response), choices), gold, choices)


def decision(response: str, found: Located, choices: Sequence[str]) -> Decision:
    """What a response decides on, given the marked answer in it, if there is one."""
    answer, source, missing = found
    response = response.replace(decisions.MARK, " ")
    if answer is None:
        letters = decisions.decided(response, naming(choices))
        return Decision(letters, None, "words" if letters else "", missing)
    letters = letter_of(answer, choices)
    if len(letters) != 1 or source == "pattern":
        return Decision(letters, answer, source, "no letter")
    if source == "hashes":
        before, _, after = response.rpartition("####")
        _, _, after = after.partition("\n")
        marked = f"{before}\n{decisions.MARK}{letters}\n{after}"
    else:
        marked = _BOXES.sub(lambda box: _mark(box[1], answer, letters), response)
    if decisions.MARK in marked:
        letters = decisions.decided(marked, naming(choices))
    return Decision(letters, answer, source, "the letter is not upheld")


def _mark(content: str, answer: str, letters: str) -> str:
    """A box as `decisions` reads it: `letters` if its content is the answer."""
    letters = letters if content.strip() == answer else decisions.said(content)
    return f" {decisions.MARK}{letters} " if len(letters) == 1 else " "


def verdict(decision: Decision, gold: str, choices: Sequence[str]) -> Verdict:
    """The verdict on a decision."""
    letters, extracted = decision.letters, (decision.answer or "")[:200]
    if len(letters) != 1:
        return Verdict("unparsed", extracted, "two letters" if letters else decision.missing)
    if choices and ord(letters) - 65 >= len(choices):
        return Verdict("unparsed", extracted, f"no choice {letters}")
    return Verdict("correct" if letters == gold_letter(gold) else "wrong", letters)


def gold_letter(gold: str) -> str:
    """The letter of a gold: `C`, `(C)`, `c.`."""
    return gold.strip().strip("().").upper()


def letter_of(answer: str, choices: Sequence[str]) -> str:
    """The letter of an answer: empty if there is none, several if it names several."""
    signed = answer.lstrip().startswith(("-", "+"))
    if signed or len(answer) > LONGEST or not balanced(answer):
        return ""
    of_text = _with_text(answer, choices)
    if re.fullmatch(r"\(?[a-j]\)?\.?", answer):
        answer = answer.upper()
    letters = decisions.said(answer, naming(choices))
    return "".join(dict.fromkeys(letters + of_text))


def naming(choices: Sequence[str]) -> decisions.Naming | None:
    """How `decisions` finds the choices in a text; None if they are unknown."""
    if not choices:
        return None
    known = [_words(decisions.plain(choice)) for choice in choices]

    def named(text: str, inside: bool) -> str:
        words = _words(text)
        whole = [one == words for one in known]
        parts = [one in words if inside else one.startswith(words) for one in known]
        found = whole if any(whole) else parts if words.strip() else []
        return "".join(chr(65 + place) for place, is_it in enumerate(found) if is_it)

    return named


def _words(text: str) -> str:
    """A plain text for comparison: its words and signs in small letters, each between spaces."""
    return f" {' '.join(_WORD.findall(text.lower().strip(' .,:;')))} "


def _with_text(answer: str, choices: Sequence[str]) -> str:
    """The letters of the choices that have this text."""
    return "".join(chr(65 + place) for place, choice in enumerate(choices) if same(answer, choice))


def same(answer: str, choice: str) -> bool:
    """Whether an answer is the text of a choice, as words or as mathematics without algebra."""
    if len(answer) > LONGEST:
        return False
    if _layout(answer) == _layout(choice):
        return bool(choice.strip())
    if max(len(answer), len(choice)) > LONGEST_AT_ONCE:
        return False
    try:
        return compare(answer, choice, algebra=False) == "same"
    except UndecidedError:
        return False


@lru_cache(maxsize=256)
def _layout(text: str) -> str:
    """A text for comparison as words: its layout and case left out."""
    return flat(tidy(text)).lower()

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

_PREFIX = re.compile(
    r"^(?:the )?(?:correct |final |right |best )*(?:option|choice|answer)(?: is)? ?:? ?", re.I
)
_HEADED = re.compile(
    r"[(\[]? ?([A-J]) ?(?:[)\]]?(?:[.:),-]+(?= |$)| (?=\())|[)\]](?= |$)|$) ?(.*)", re.S
)
_OF_THE_OTHERS = re.compile(r"(?:none|all|both|neither) of (?:the above|these|them)\W*", re.I)
_LONGEST_LINE = 300


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
    answer may be such a text. Without a box, the answer is the letter on the last line, or the last
    decision in words (`decisions`). Two letters are unparsed."""
    return verdict(decision(response, located(response), choices), gold, choices)


def decision(response: str, found: Located, choices: Sequence[str]) -> Decision:
    """What a response decides on, given the marked answer in it, if there is one."""
    answer, source, missing = found
    if answer is not None:
        return Decision(letter_of(answer, choices), answer, source, "no letter")
    if line := _on_last_line(response, choices):
        return Decision(line, None, "last line", missing)
    letters = decisions.decided(response)
    return Decision(letters, None, "words" if letters else "", missing)


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


def _on_last_line(response: str, choices: Sequence[str]) -> str:
    """The letter that stands on the last line alone or before its text, as in `**(B)** 12 m` or
    `Option B`; empty if the line before it has one too, as in a list of choices."""
    lines = response.rstrip().rsplit("\n", 1)
    before, line = (_headed(line) for line in (lines[0].rstrip().rpartition("\n")[2], lines[-1]))
    return _letter(*line, choices) if line and (len(lines) == 1 or not before) else ""


def _headed(line: str) -> tuple[str, str] | None:
    """The letter at the start of a line, and the text behind it."""
    if len(line) > _LONGEST_LINE:
        return None
    match = _HEADED.fullmatch(
        re.sub(r"(?i)^(?:answer )?(?:option |choice )?", "", decisions.spelled(line).strip())
    )
    return (match[1], match[2]) if match else None


def _letter(letter: str, text: str, choices: Sequence[str]) -> str:
    """A letter with the text behind it: two if it is the text of another, none if it says more."""
    of_text = _with_text(text.strip("() "), choices)
    if not (of_text or decisions.silent(text) or _OF_THE_OTHERS.fullmatch(text)):
        return ""
    return letter if letter in of_text else letter + of_text


def letter_of(answer: str, choices: Sequence[str]) -> str:
    """The letter of an answer: empty if there is none, several if it names several."""
    if len(answer) > LONGEST or not balanced(answer):
        return ""
    text = _PREFIX.sub("", plain(answer))
    of_text = _with_text(answer, choices)
    if len(of_text) == 1 and len(text) > 1:
        return of_text
    if re.fullmatch(r"\(?[a-j]\)?\.?", text):
        return of_text or text.strip("().").upper()
    if (match := _HEADED.fullmatch(text)) and (letter := _letter(match[1], match[2], choices)):
        return letter
    if text.startswith("\\"):  # \neg A
        return ""
    named = decisions.named(text)
    return named if len(named) > 1 else decisions.decided(f"The answer is {text}")


def _with_text(answer: str, choices: Sequence[str]) -> str:
    """The letters of the choices that have this text."""
    return "".join(chr(65 + place) for place, choice in enumerate(choices) if same(answer, choice))


def plain(answer: str) -> str:
    """The answer without text marks, styles and emphasis, words separated by one space."""
    text = re.sub(r"\\(?:math(?:bf|cal|bb|rm)|vec|bold|textbf)\{([^{}]*)\}", r"\1", tidy(answer))
    return " ".join(re.sub(r"[\ue000\ue001*$]", " ", text).split())


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

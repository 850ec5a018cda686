"""Multiple choice: the letter that a response decides on, or the text of a choice."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ictcli.rewards.answers import LONGEST_AT_ONCE, Located, Source, located
from ictcli.rewards.maths.compare import LONGEST, UndecidedError, compare
from ictcli.rewards.maths.latex import balanced, flat, tidy
from ictcli.rewards.verifiers import Verdict

_LETTER = re.compile(r"[(\[]? ?([A-J]) ?[)\]]?(?: ?[.:),-]+(?= |$)| (?=\())? ?(.*)", re.S)
_PREFIX = re.compile(
    r"^(?:the )?(?:correct |final |right |best )*(?:option|choice|answer)(?: is)? ?:? ?", re.I
)
_ALONE = re.compile(r"(?<![A-Za-z\d_^\\])\(?([A-J])\)?(?![A-Za-z\d_^'])")
_DRESS = r"[*_`\"' ]*+(?:\\\(|\\\[|\$)? ?(?:\\(?:text|textbf|mathrm|mathbf|bf) ?\{ ?)?[([]? ?"
_LEAD = r"(?:answer(?: is)?|(?:option|choice)(?: is|(?=[*_ ]*+:)))[*_]*+ ?(?:is|:)?[ \n]?"
_LEADS = ("answer", "option", "choice")
_ANSWER = re.compile(
    rf"{_LEAD}(?:option |choice )?{_DRESS}([A-J])(?![A-Za-z\d_^'=+])([^\n.]{{0,60}})", re.I
)
_ON_ITS_LINE = re.compile(
    r"(?:[_`\"$([{]|\*+(?! )|\\[(\[]|\\(?:text|textbf|mathrm|mathbf|bf) ?(?=\{))*+"
    r"([A-J])(?:[*_`\"$)\]}.]|\\[)\]])*+"
)


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
    answer may be such a text. Without a box, the answer is the letter after "answer is" or the
    like, or one that stands alone on the last line. Two different letters are unparsed."""
    return verdict(decision(response, located(response), choices), gold, choices)


def decision(response: str, found: Located, choices: Sequence[str]) -> Decision:
    """What a response decides on, given the marked answer in it, if there is one."""
    answer, source, missing = found
    if answer is not None:
        return Decision(letter_of(answer, choices), answer, source, "no letter")
    words, line = _in_words(response), _on_last_line(response)
    letters = "".join(dict.fromkeys(words + line))
    return Decision(letters, None, "words" if words else "last line" if line else "", missing)


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


def _in_words(response: str) -> str:
    """The letters after "answer is" or "answer:" in a response without a box."""
    lowered = response.lower()
    if not any(lead in lowered for lead in _LEADS):
        return ""
    letters: list[str] = []
    lines = (" ".join(line.split()) for line in response.splitlines())
    text = "\n".join(line for line in lines if line)
    for match in _ANSWER.finditer(text):
        letter, rest = match[1], match[2]
        if not letter.isupper() or (letter in "AI" and re.match(r" [a-z]", rest)):
            continue  # "the answer is A good one"
        several = re.match(r"(?:[\s)\]}$*_,;/&+]*(?:\b(?:or|and|nor)\b)?[\s({[]*[A-J]\b)+", rest)
        letters.append(letter)
        letters.extend(_ALONE.findall(several[0]) if several else [])
    return "".join(dict.fromkeys(letters))


def _on_last_line(response: str) -> str:
    """The letter that stands alone on the last line; with that of the line before if it is alone
    too, as in a list of choices."""
    before, _, line = response.rstrip().rpartition("\n")
    letter = _letter_on(line)
    return letter and _letter_on(before.rstrip().rpartition("\n")[2]) + letter


def _letter_on(line: str) -> str:
    match = _ON_ITS_LINE.fullmatch(line.strip()) if len(line) < 60 else None
    return match[1] if match else ""


def letter_of(answer: str, choices: Sequence[str]) -> str:
    """The letter of an answer: empty if there is none, several if it names several."""
    if len(answer) > LONGEST or not balanced(answer):
        return ""
    by_text = [chr(65 + i) for i, choice in enumerate(choices) if same(answer, choice)]
    text = _PREFIX.sub("", plain(answer))
    if len(text) > 1 and len(by_text) == 1:
        return by_text[0]
    if match := _LETTER.fullmatch(text):
        letter, rest = match[1], match[2].strip()
        whole = rest.strip("() ") if rest[:1] == "(" else rest
        place = ord(letter) - 65
        if not rest or (place < len(choices) and same(whole, choices[place])):
            return letter
        named = "".join(other for other in _ALONE.findall(rest) if other != letter)
        others = [chr(65 + i) for i, choice in enumerate(choices) if same(whole, choice)]
        if named or others:
            return letter + (named or "".join(others))
        worded = not re.match(r"[A-Za-z\d_^=+'*/-]", text[len(match[0]) - len(match[2]) - 1 :][:1])
        return letter if worded else ""
    if re.fullmatch(r"\(?[a-j]\)?\.?", text) and not by_text:
        return text.strip("().").upper()
    return by_text[0] if len(by_text) == 1 else ""


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

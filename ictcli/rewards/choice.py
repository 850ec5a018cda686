"""Multiple choice: the letter a response settles on, in any dress, or a choice's own text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ictcli.rewards.answers import extract
from ictcli.rewards.maths.compare import UndecidedError, compare
from ictcli.rewards.maths.latex import balanced, flat, tidy
from ictcli.rewards.verifiers import Verdict

_LETTER = re.compile(r"\(?\s*([A-J])\s*\)?\s*(?:[.:)]+(?=\s|$)\s*(.*))?", re.S)
_WORDED = re.compile(
    r"(?:option|choice|answer|answer is|answer:)\s*:?\s*\(?([A-J])\)?\s*(?:[.:)]\s*(.*))?",
    re.S | re.I,
)
_SEVERAL = re.compile(r"(?<![A-Za-z])\(?([A-J])\)?(?![A-Za-z])")
_ONE = r"[*_$({\s]*(?:\\(?:text|textbf|mathrm|mathbf)\s*\{\s*)?\(?\s*([A-J])(?![A-Za-z'])"
_ANSWER = re.compile(
    rf"answer\s*(?:is\s*:?|:)\s*(?:option|choice)?\s*{_ONE}(?:[\s)}}*_$]*(?:or|and|,|/|&)\s*{_ONE})?",
    re.I,
)


def judge(response: str, gold: str, choices: Sequence[str] = ()) -> Verdict:
    """A response against a gold letter. `choices` are the texts of A, B, ...: with them an answer
    may be the text itself. Two different letters are unparsed."""
    answer = extract(response)
    if answer is None:
        found = [letter for letters in _ANSWER.findall(response) for letter in letters if letter]
        letters = {letter for letter in found if letter.isupper()}
        if len(letters) != 1:
            return Verdict("unparsed", "", "two letters" if letters else "no answer in a box")
        return _verdict(letters.pop(), gold)
    found = letter_of(answer, choices)
    if len(found) != 1:
        return Verdict("unparsed", answer[:200], "two letters" if found else "no letter")
    return _verdict(found, gold)


def _verdict(letter: str, gold: str) -> Verdict:
    return Verdict("correct" if letter == gold.strip().strip("().").upper() else "wrong", letter)


def letter_of(answer: str, choices: Sequence[str]) -> str:
    """The letter of an answer; empty where there is none, several where it names several."""
    if len(answer) > 2000 or not balanced(answer):
        return ""
    text = flat_words(answer)
    by_text = "".join(chr(65 + i) for i, choice in enumerate(choices) if same(answer, choice))
    if len(text) > 1 and len(by_text) == 1:
        return by_text
    for pattern in (_LETTER, _WORDED):
        if found := pattern.fullmatch(text):
            rest = found[2] or ""
            if rest and not choices and _several(rest):
                return found[1].upper() + _several(rest)
            if rest and choices:
                place = ord(found[1].upper()) - 65
                others = [i for i, choice in enumerate(choices) if same(rest, choice)]
                if others and place not in others:
                    return found[1].upper() + "".join(chr(65 + i) for i in others)
            return found[1].upper()
    if re.fullmatch(r"[\sA-J,;&()/.]*(?:(?:and|or)[\sA-J,;&()/.]*)*", text):
        return "".join(dict.fromkeys(_SEVERAL.findall(text)))
    if re.fullmatch(r"\(?[a-j]\)?\.?", text) and not by_text:
        return text.strip("().").upper()
    return by_text[:1] if len(by_text) == 1 else ""


def _several(text: str) -> str:
    return "".join(_SEVERAL.findall(text)) if re.fullmatch(r"[\sA-J,;&()/.andor]*", text) else ""


def flat_words(answer: str) -> str:
    """Tidy, text marks gone, spaces kept."""
    text = re.sub(r"\\math(?:bf|cal|bb)\{([^{}]*)\}", r"\1", tidy(answer))
    return re.sub(r"[\ue000\ue001*]", " ", text).strip().replace("  ", " ")


def same(answer: str, choice: str) -> bool:
    """Whether an answer is a choice's own text, as words or as mathematics without algebra."""
    if flat(tidy(answer)).lower() == flat(tidy(choice)).lower():
        return bool(choice.strip())
    try:
        return compare(answer, choice, algebra=False) == "same"
    except UndecidedError:
        return False

"""Judge multiple choice: by the letter that a response decides on, or by the text of a choice."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from ictcli.rewards import statement
from ictcli.rewards.answers import Located, boxes
from ictcli.rewards.builtin import math_at_once
from ictcli.rewards.maths.compare import LONGEST
from ictcli.rewards.maths.latex import balanced, flat, tidy
from ictcli.rewards.verifiers import VERIFIERS, Verdict, Verifier

_READ, _BEFORE = 20_000, 600
"""Maximum characters read: of a response, or after a boxed answer; and before a boxed answer."""
_LAYOUT = (
    (r"\\(?:text(?:bf|rm|it|sf)?|math(?:bf|rm|sf)|bf)(?![a-z]) ?\{([^{}]*)\}", r"\1"),
    (r"</?(?:answer|b|i|strong|em|p|br) ?/?>|\\(?:begin|end)\{\w+\*?\}|\\[\[\]]", "\n"),
    (r"\$\$|\$(?= The )", "\n"),
    (r"[\u2018\u2019\u201c\u201d]", "'"),
    (r"['\"]([A-J])['\"]|\\[(),;:! ]|[*`$]|(?<!\w)_+|(?<!_)_+(?!\w)|(?m:^ *#+)|[^\S\n]", r" \1"),
    (r"(?m:^ *(?:[-+] )?>.*$)|(?m:^ *(?:[-•+]|\d+[.)]) )|(?<=\n) +| +(?=[ \n:,.])", ""),
    (r",? (?:not|rather than)(?:(?:,| or|, or)? (?:option )?\(?[A-J]\)?)+(?=[.,;]|$)", ""),
    (r"(?<=[:,])\n+|(?<!\n)\n+(?=[a-z])", " "),
    (r"(?i)(?:(?:i )?hope|(?:please )?let me know|feel free)(?-i:[^.!,;:?A-J]{0,99})[.!]?$", ""),
)
_WORD = re.compile(r"[^\W\d_]+|\d+(?:[.,]\d+)*|\S")


def verdict(response: str, gold: str, choices: Sequence[str], found: Located) -> Verdict:
    """Return the verdict on a response that `said.said` has cleaned: on the answer `found` in it,
    or, if none was found, on the letter that the text states. `choices` are the texts of A, B, ...,
    one of which may be the answer. An answer that names two letters is unparsed."""
    answer, source, missing = found
    if answer is None:
        letters = statement.stated(plain(response[-_READ:]), naming(choices))
    else:
        marked = boxes(response) if source == "box" else [answer]
        letters = "".join(dict.fromkeys("".join(letter_of(text, choices) for text in marked)))
        missing = "the answer names no letter"
        if len(letters) == 1 and source != "pattern" and not _upheld(response, answer, letters):
            letters, missing = "", "the letter is denied or doubted"
    extracted = (answer or "")[:200]
    if len(letters) != 1:
        missing = "the answer names two letters" if letters else missing
        return Verdict("unparsed", extracted, missing)
    if choices and ord(letters) - 65 >= len(choices):
        return Verdict("unparsed", extracted, f"there is no choice {letters}")
    return Verdict("correct" if letters == gold_letter(gold) else "wrong", letters)


VERIFIERS["choice"] = Verifier("choice", verdict, named=True)


def _upheld(response: str, answer: str, letter: str) -> bool:
    """Return whether no word around the answer's last occurrence denies or doubts it."""
    before, mark, after = response.rpartition("{" + answer)
    if not mark:
        before, _, after = response.rpartition(answer)
    before = re.sub(r"(\\(?:boxed|fbox)\s*|####\s*)$", "", before[-_BEFORE:])
    if len(after) > _READ:
        return False
    before, after = plain(before), plain(after.lstrip("}"))
    return statement.upheld(before, letter, after, naming(()))


def gold_letter(gold: str) -> str:
    """Return the letter of a gold, which may be written `C`, `(C)` or `c.`."""
    return gold.strip().strip("().").upper()


def letter_of(answer: str, choices: Sequence[str]) -> str:
    """Return all letters that an answer names, as one text; empty if it names none."""
    if len(answer) > LONGEST or not balanced(answer):
        return ""
    of_text = [chr(65 + place) for place, choice in enumerate(choices) if same(answer, choice)]
    text = plain(answer)
    if re.fullmatch(r"\(?[a-j]\)?\.?", text):
        text = text.upper()
    return "".join(dict.fromkeys([*statement.stated(text, naming(choices)), *of_text]))


def plain(text: str) -> str:
    """Return a text without LaTeX and Markdown styles and without quoted lines."""
    for pattern, replacement in _LAYOUT:
        text = re.sub(pattern, replacement, text)
    return text.strip()


def naming(choices: Sequence[str]) -> Callable[[str], str]:
    """Return a function from a text to the letters of the choices that have the same words."""
    keys = [_words(plain(choice)) for choice in choices]

    def named(text: str) -> str:
        words = _words(text)
        return "".join(chr(65 + place) for place, key in enumerate(keys) if key == words != "")

    return named


def _words(text: str) -> str:
    """Return a text normalized for comparison: lower-case words and signs, no leading article."""
    words = _WORD.findall(text.lower().strip(" .,:;()[]\"'!-"))
    return " ".join(words[1:] if words[0:1] in (["the"], ["a"], ["an"]) and words[1:] else words)


def same(answer: str, choice: str) -> bool:
    """Return whether an answer equals the text of a choice, as words or as mathematics."""
    if _layout(answer) == _layout(choice):
        return bool(choice.strip())
    outcome = math_at_once(answer, choice)
    return outcome is not None and outcome.status == "correct"


@lru_cache(maxsize=256)
def _layout(text: str) -> str:
    return flat(tidy(text)).lower()

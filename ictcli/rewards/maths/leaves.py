"""The parts of an answer that hold no others: numerals, words, ratios, expressions with units."""

from __future__ import annotations

import re
from collections.abc import Callable

from ictcli.rewards.maths.latex import CLOSE, OPEN
from ictcli.rewards.maths.nodes import Items, Nearly, Node, Numeral, Ratio, Scalar, Words
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.relations import is_name
from ictcli.rewards.maths.spelling import SHORT_WORDS
from ictcli.rewards.maths.splitting import split
from ictcli.rewards.maths.units import split_unit

_BASED = re.compile(
    rf"""^[({{]?\s*([0-9A-Z]+(?:\.[0-9A-Z]+)?)\s*[)}}]?
    _\s*(?:\{{\s*([^{{}}]+?)\s*\}}|(\d)|({OPEN}[^{CLOSE}]*{CLOSE}))$""",
    re.X,
)
_BASE_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "sixteen": 16, "hex": 16,
}  # fmt: skip
_DEGREES = re.compile(rf"(\d+(?:\.\d+)?|[a-zA-Z]|\\(?:theta|alpha|beta))\s*{OPEN}degrees{CLOSE}")
_MINUTES = re.compile(rf"(\d+)\s*({OPEN}degrees{CLOSE})\s*(\d+)\s*'(?:\s*(\d+)\s*'')?")


def based(text: str) -> Numeral | None:
    """Digits to a base that is written down."""
    if not (found := _BASED.match(text)):
        return None
    base = (found[2] or found[3] or found[4]).strip(OPEN + CLOSE + " ").lower()
    base = base.removeprefix("base").strip()
    value = _BASE_WORDS.get(base) or (int(base) if base.isdigit() and len(base) < 3 else 0)
    digits = found[1].lstrip("0") or "0"
    if not 2 <= value <= 36 or (digits[0].isalpha() and value <= 10):
        return None
    return Numeral(digits, value)


def worded(text: str) -> Words | None:
    """Text marks or letters alone, at least one of them more than a symbol."""
    if OPEN in text:
        marked = re.sub(rf"{OPEN}[^{CLOSE}]*{CLOSE}", "", text)
        return Words(simple(text)) if re.fullmatch(r"[\sA-Za-z.\-()']*", marked) else None
    if not re.fullmatch(r"[A-Za-z]+(?:[ \-'.]+[A-Za-z]+)*[.']?", text.strip()):
        return None
    runs = re.findall(r"[A-Za-z]+", text)
    return Words(simple(text)) if any(map(is_word, runs)) and not _signed(text) else None


def is_word(run: str) -> bool:
    """Whether letters in a row are a word, not a product of symbols."""
    return run.lower() in SHORT_WORDS or (len(run) > 3 and bool(set(run.lower()) & set("eiou")))


def _signed(text: str) -> bool:
    """Whether a hyphen or prime stands beside letters that are no word: a sign of mathematics."""
    return any(
        not (is_word(left) and is_word(right))
        for left, right in re.findall(r"([A-Za-z]*)[-'](?=([A-Za-z]*))", text)
    )


def simple(words: str) -> str:
    """Words for comparison: lower case, single spaces, no parentheses or stops around; signs
    beside digits stay."""
    words = words.replace(OPEN, " ").replace(CLOSE, " ").replace("p.m.", "pm").replace("a.m.", "am")
    words = re.sub(r"[(){};!?\"]+|[.,:](?!\d)|-(?![\d.])", " ", words.lower())
    return " ".join(words.split())


def ratio(text: str) -> Ratio | None:
    """a : b."""
    text = re.sub(rf"(?<=[\d\s]){OPEN}\s*to\s*{CLOSE}(?=[\s\d])", ":", text)
    parts, signs = split(text.replace("{:}", ":"), {":"})
    if not signs or any(number(part) is None and not is_name(part) for part in parts):
        return None
    return Ratio(tuple(parts))


def scalar(text: str, node: Callable[[str], Node]) -> Node:
    """An expression with its unit or percent sign; `node` reads what a unit stood behind."""
    if re.search(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])", text):
        text = _DEGREES.sub(r"(\1\\cdot\\frac{\\pi}{180})", text)
    text = _MINUTES.sub(_decimal_degrees, text)
    value, unit = split_unit(text)
    if value != text:
        inner = node(value)
        if isinstance(inner, Scalar):
            return Scalar(inner.text, unit)
        if isinstance(inner, Items | Nearly | Numeral):
            return inner
        if isinstance(inner, Ratio):  # of a clock
            return Words(simple(text))
    percent = re.fullmatch(r"(.*[^\s])\s*%", value)
    if percent:
        return Scalar(percent[1], "%")
    return Scalar(value, unit)


def _decimal_degrees(found: re.Match[str]) -> str:
    seconds = 3600 * int(found[1]) + 60 * int(found[3]) + int(found[4] or 0)
    return f"\\frac{{{seconds}}}{{3600}}{found[2]}"


def determinant(cells: list[list[str]]) -> str:
    """A determinant written out along its first row."""
    if len(cells) == 1:
        return f"({cells[0][0]})"
    terms: list[str] = []
    for place, cell in enumerate(cells[0]):
        minor = [row[:place] + row[place + 1 :] for row in cells[1:]]
        terms.append(f"{'-' if place % 2 else '+'}({cell})({determinant(minor)})")
    return "".join(terms).lstrip("+")

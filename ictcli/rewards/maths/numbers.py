"""Exact numbers as answers write them: integers, decimals, fractions, mixed and repeating ones."""

from __future__ import annotations

import re
from fractions import Fraction

DIGITS = 400
"""Of the longest number that is read; a longer one is compared as text."""

_PLAIN = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+"
_NUMBER = re.compile(_PLAIN)
_SIGN = re.compile(r"^\s*([+-]?)\s*")
_REPEATING = re.compile(
    r"(\d*)\.(\d*)(?:\\(?:overline|bar|dot)\{(\d+)\}|\((\d+)\)|\\dot (\d)|\\bar (\d))"
)
_FRACTION = re.compile(r"\\frac\{([^{}]*)\}\{([^{}]*)\}")
_SLASH = re.compile(rf"({_PLAIN})\s*/\s*({_PLAIN})")
_MIXED = re.compile(r"(\d+)\s*(?:\\frac\{\s*(\d+)\s*\}\{\s*(\d+)\s*\}|\s(\d+)\s*/\s*(\d+))")
_SCIENTIFIC = re.compile(
    rf"({_PLAIN})\s*(?:(?:\\cdot|\*|x)\s*10\s*\^\s*(?:\{{\s*([+-]?\d+)\s*\}}|(\d))|[eE]([+-]?\d+))"
)


def plain(text: str) -> Fraction | None:
    """`1,234`, `007`, `12.50`, `.5` as a number."""
    if len(text) > DIGITS or not _NUMBER.fullmatch(text):
        return None
    return Fraction(text.replace(",", "").rstrip("."))


def number(text: str) -> Fraction | None:
    """A tidy text (`latex.tidy`) that is one exact number, signed or not, else None."""
    text = text.strip()
    while text[:1] == "(" and text[-1:] == ")" and "(" not in text[1:] and ")" not in text[:-1]:
        text = text[1:-1].strip()
    sign = _SIGN.match(text)
    if not sign or len(text) > DIGITS:
        return None
    found = _unsigned(text[sign.end() :].strip())
    return -found if found is not None and sign[1] == "-" else found


def _unsigned(text: str) -> Fraction | None:
    if _NUMBER.fullmatch(text):
        return plain(text)
    if found := _REPEATING.fullmatch(text):
        whole, fixed = found[1] or "0", found[2]
        again = next(group for group in found.groups()[2:] if group)
        scale = 10 ** len(fixed)
        tail = Fraction(int(again), (10 ** len(again) - 1) * scale)
        return int(whole) + Fraction(int(fixed or "0"), scale) + tail
    if found := _FRACTION.fullmatch(text):
        above, below = number(found[1]), number(found[2])
        return above / below if above is not None and below else None
    if found := _SLASH.fullmatch(text):
        above, below = plain(found[1]), plain(found[2])
        return above / below if above is not None and below else None
    if found := _MIXED.fullmatch(text):
        above, below = (found[2], found[3]) if found[2] else (found[4], found[5])
        return int(found[1]) + Fraction(int(above), int(below)) if int(below) else None
    if found := _SCIENTIFIC.fullmatch(text):
        base, exponent = plain(found[1]), int(found[2] or found[3] or found[4])
        return (
            base * Fraction(10) ** exponent if base is not None and abs(exponent) <= 400 else None
        )
    return None

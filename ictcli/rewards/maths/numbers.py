"""Parse exact numbers: integers, decimals, fractions, mixed numbers and repeating decimals."""

import re
from fractions import Fraction

from ictcli.rewards.maths.latex import CLOSE, OPEN
from ictcli.rewards.maths.nodes import Exact

DIGITS = 400
"""Maximum number of characters of a number; a longer one is compared as text."""

_PLAIN = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+"
_NUMBER = re.compile(_PLAIN)
_REPEATING = re.compile(
    r"(\d*)\.(\d*)(?:\\(?:overline|bar|dot)\{(\d+)\}|\((\d+)\)|\\dot (\d)|\\bar (\d))"
)
_FRACTION = re.compile(r"\\frac\{([^{}]*)\}\{([^{}]*)\}")
_SLASH = re.compile(rf"({_PLAIN})\s*/\s*({_PLAIN})")
_MIXED = re.compile(r"(\d+)\s*(?:\\frac\{\s*(\d+)\s*\}\{\s*(\d+)\s*\}|\s(\d+)\s*/\s*(\d+))")
_SCIENTIFIC = re.compile(
    rf"({_PLAIN})\s*(?:(?:\\cdot|\*|x)\s*10\s*\^\s*(?:\{{\s*([+-]?\d+)\s*\}}|(\d))|[eE]([+-]?\d+))"
)
_BASED = re.compile(
    rf"""^[({{]?\s*([0-9A-Z]+(?:\.[0-9A-Z]+)?)\s*[)}}]?
    _\s*(?:\{{\s*([^{{}}]+?)\s*\}}|(\d)|({OPEN}[^{CLOSE}]*{CLOSE}))$""",
    re.X,
)
_BASE_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "sixteen": 16, "hex": 16,
}  # fmt: skip


def plain(text: str) -> Fraction | None:
    """Return the value of a number like `1,234`, `007`, `12.50` or `.5`; None for other texts."""
    if len(text) > DIGITS or not _NUMBER.fullmatch(text):
        return None
    return Fraction(text.replace(",", "").rstrip("."))


def number(text: str) -> Fraction | None:
    """Return the value of normalized LaTeX that is one exact number, signed or not; else None."""
    text = text.strip()
    while text[:1] == "(" and text[-1:] == ")" and "(" not in text[1:] and ")" not in text[:-1]:
        text = text[1:-1].strip()
    if len(text) > DIGITS:
        return None
    value = _unsigned(text[text[:1] in ("+", "-") :].lstrip())
    return -value if value is not None and text[:1] == "-" else value


def _unsigned(text: str) -> Fraction | None:
    if _NUMBER.fullmatch(text):
        return plain(text)
    if match := _REPEATING.fullmatch(text):
        whole, fixed = match[1] or "0", match[2]
        again = next(group for group in match.groups()[2:] if group)
        scale = 10 ** len(fixed)
        tail = Fraction(int(again), (10 ** len(again) - 1) * scale)
        return int(whole) + Fraction(int(fixed or "0"), scale) + tail
    if match := _FRACTION.fullmatch(text) or _SLASH.fullmatch(text):
        above, below = number(match[1]), number(match[2])
        return above / below if above is not None and below else None
    if match := _MIXED.fullmatch(text):
        above, below = int(match[2] or match[4]), int(match[3] or match[5])
        return int(match[1]) + Fraction(above, below) if below else None
    if match := _SCIENTIFIC.fullmatch(text):
        base, exponent = plain(match[1]), int(match[2] or match[3] or match[4])
        if base is not None and abs(exponent) <= 400:
            return base * Fraction(10) ** exponent
    return None


def decimal_places(text: str, least: int) -> int | None:
    """Return the number of digits after the point of a decimal or integer; None for any other text,
    and for fewer than `least` significant digits."""
    match = re.fullmatch(r"\s*[+-]?\s*([\d,]+)?(?:\.(\d+))?", text)
    if not match:
        return None
    digits = ((match[1] or "") + (match[2] or "")).replace(",", "").lstrip("0")
    return len(match[2] or "") if len(digits) >= least else None


def based(text: str) -> Exact | None:
    """Return a number with an explicit base, like `52_8`; None for other texts."""
    if not (match := _BASED.match(text)):
        return None
    base = re.sub(rf"[\s{OPEN}{CLOSE}]", "", match[2] or match[3] or match[4]).lower()
    base = base.removeprefix("base").strip()
    value = _BASE_WORDS.get(base) or (int(base) if base.isdigit() and len(base) < 3 else 0)
    digits = match[1].lstrip("0") or "0"
    if not 2 <= value <= 36 or (digits[0].isalpha() and value <= 10):
        return None
    return Exact(f"{digits} in base {value}")

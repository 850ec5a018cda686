"""How a comparison writes numbers, lists and text."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from ictcli.text import visible

ABSENT = "\u2013"
MINUS = "\u2212"

whole = "{:,}".format
setting = "{:g}".format
hundredths = "{:.2f}".format


def percent(share: float) -> str:
    return f"{100 * share:.1f}".replace("-", MINUS)


def points(difference: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    text = f"{100 * difference:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", MINUS)


def sentence(text: Any) -> str:
    """A claim's words: nothing hides in them, and the sign of a number is no hyphen."""
    return re.sub(r"(?<![^\s(])-(?=\.?\d)", MINUS, visible(str(text)))


def p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def figure(value: float) -> str:
    """Three significant digits, with an exponent only below 0.0001."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1000:
        text = f"{value:,.0f}"
    elif size >= 0.0001:
        text = f"{value:#.3g}".rstrip(".")
    else:
        text = f"{value:.1e}"
    return text.replace("-", MINUS)


def thousandths(value: float) -> str:
    return f"{value:.3f}".replace("-", MINUS)


def size(count: float) -> str:
    """Bytes in binary units."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def count_range(counts: Sequence[int]) -> str:
    """`5`, or `3 to 5` where they differ."""
    low, high = min(counts, default=0), max(counts, default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def bounds(low: float | None, high: float | None, form: Callable[[float], str]) -> str:
    """Both ends of an interval, with a word between: a dash could be read as a sign."""
    return ABSENT if low is None or high is None else f"{form(low)} to {form(high)}"

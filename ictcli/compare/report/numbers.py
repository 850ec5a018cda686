"""How numbers are written, and the cells they stand in."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from ictcli.compare.report.document import Cell, Column, Row
from ictcli.text import visible

ABSENT = "\u2013"
MINUS = "\u2212"


def several_lines(text: Any) -> str:
    """Text of several lines, in which nothing can hide."""
    return "\n".join(visible(line) for line in str(text).split("\n"))


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
    """Three significant digits, no exponent where one can do without."""
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


def whole(value: int) -> str:
    return f"{value:,}"


def setting(value: float) -> str:
    """As one would type it."""
    return f"{value:g}"


def hundredths(value: float) -> str:
    return f"{value:.2f}"


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
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def of(value: float | None, form: Callable[[Any], str] = figure) -> Cell:
    """A number as `form` writes it; None is absent."""
    return Cell(ABSENT if value is None else form(value), (value,))


def word(text: Any) -> Cell:
    return Cell(visible(str(text)), (visible(str(text)),))


def bounds(low: float | None, high: float | None, form: Callable[[float], str]) -> str:
    """Both ends, in words so that no dash is taken for a sign."""
    return ABSENT if low is None or high is None else f"{form(low)} to {form(high)}"


def bounded(
    value: float | None,
    low: float | None,
    high: float | None,
    form: Callable[[float], str] = figure,
) -> Cell:
    """A number with its interval below it, where it has one of some width."""
    under = bounds(low, high, form) if low != high else ""
    return Cell(of(value, form).text, (value, low, high), under=under)


def column(
    title: str,
    value: Callable[[Row], float | None],
    form: Callable[[Any], str] = figure,
    name: str = "",
) -> Column[Row]:
    """A column of numbers, `name` in the CSV file."""
    return Column(title, lambda row: of(value(row), form), (name or title,))


def text_column(title: str, text: Callable[[Row], object], name: str = "") -> Column[Row]:
    return Column(title, lambda row: word(text(row)), (name or title,), is_text=True)

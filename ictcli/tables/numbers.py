"""Numbers as text: figures, shares, intervals, sizes, counts."""

from collections.abc import Callable, Sequence

ABSENT = "\u2013"
MINUS = "\u2212"
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
Format = Callable[[float], str]

whole = "{:,}".format
setting = "{:g}".format


def percent(share: float) -> str:
    """Return a share as a percentage with one decimal, without `%`."""
    return f"{100 * round(share, 3):.1f}".replace("-", MINUS)


def shown_share(share: float | None) -> str:
    """Return a share as a percentage: `37.9 %`; `-` for None."""
    return "-" if share is None else f"{percent(share)} %"


def points(difference: float) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    text = f"{100 * round(difference, 3):+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", MINUS)


def p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def rounded(value: float) -> str:
    """Return a number with three significant digits, and an exponent only below 0.0001."""
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


def size_text(count: float) -> str:
    """Return a number of bytes in binary units: `3.20 MiB`, `48.1 GiB`."""
    power = min((max(int(count), 1).bit_length() - 1) // 10, len(UNITS) - 1)
    value = count / 1024**power
    decimals = 0 if power == 0 else 2 if value < 10 else 1
    return f"{value:.{decimals}f} {UNITS[power]}"


def interval(low: float | None, high: float | None, form: Format) -> str:
    """Return an interval without its unit: `[28.0, 34.4]`; empty if an end is unknown."""
    text = "" if low is None or high is None else f"[{form(low)}, {form(high)}]"
    return text.replace(" %", "")


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def listed(words: Sequence[str]) -> str:
    """Join words as in `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))

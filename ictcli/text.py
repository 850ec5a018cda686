"""Text of models and data made safe to show, and numbers as text."""

import unicodedata
from typing import Any

SIGNS = {"\n": "⏎", "\t": "⇥", "\r": "␍"}
PART = "◌"
"""Stands for a token that is only a part of a character, or for the base of a lone mark."""
HIDDEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0" + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
"""Printable by Unicode, but invisible."""


def visible(text: str) -> str:
    """Model text made safe for a terminal: control, format and invisible characters and lone
    surrogates become signs."""
    return "".join(c if c.isprintable() and c not in HIDDEN else SIGNS.get(c, "·") for c in text)


def sign(piece: str) -> str:
    """One token made visible: not empty or blank, and not combining with the token before."""
    shown = visible(piece)
    if shown and unicodedata.category(shown[0]).startswith("M"):
        return PART + shown
    return shown if shown.strip() else "␣" * len(shown) or PART


def duration(seconds: float) -> str:
    """`42s`, `3m07s`, `2h05m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def figure(value: Any, form: str = ".3f") -> str:
    """A number by its format; `-` for None."""
    return "-" if value is None else format(value, form)

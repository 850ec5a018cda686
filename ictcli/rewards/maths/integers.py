"""Integers in any dress: `1,234`, `$18`, `007`, `12.0`, `18 dollars`, `5\\%`, `x = 5`."""

from __future__ import annotations

import re

from ictcli.rewards.maths.latex import OPEN, balanced, tidy
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.units import split_unit

_BARE = re.compile(r"[-+]?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.0*)?")
_EQUATION = re.compile(rf"^(?:[^=<>\\{OPEN}]|\\[a-zA-Z]++)*+=(?=[^=]*$)")


def as_integer(text: str) -> int | None:
    """The integer that an answer or gold is, else None."""
    bare = text.strip()
    if len(bare) <= 400 and _BARE.fullmatch(bare):
        return int(bare.replace("$", "").replace(",", "").partition(".")[0])
    if len(text) > 400 or not balanced(text):
        return None
    value, _ = split_unit(_EQUATION.sub("", tidy(text)).strip())
    found = number(value.removesuffix("%").strip())
    return int(found) if found is not None and found.denominator == 1 else None

"""A tidy text cut at the signs that stand outside all of its brackets."""

from __future__ import annotations

import re

from ictcli.rewards.maths.latex import CLOSE, OPEN
from ictcli.rewards.maths.nodes import MalformedError

DEEPEST = 50
"""Brackets within brackets; more is nobody's answer."""

OPENING, CLOSING = {"(", "[", "\\{", "{", "\\langle"}, {")", "]", "\\}", "}", "\\rangle"}
_TOKEN = re.compile(
    rf"\\(?:begin|end)\{{[a-z]*\*?\}}|\\[a-zA-Z]+|\\.|{OPEN}[^{CLOSE}]*{CLOSE}|.", re.S
)
_JOINT = re.compile(r"^(?:,?\s*(?:and|or|oder|und)\s*)$")


def tokens(text: str) -> list[tuple[str, int]]:
    """The signs of a tidy text, each with the depth of brackets around it. Half-open intervals
    close with the other kind, so round and square ones match each other. Raises MalformedError."""
    found: list[tuple[str, int]] = []
    depth: list[str] = []
    for match in _TOKEN.finditer(text):
        sign = match[0]
        closes = sign in CLOSING or sign.startswith("\\end{")
        if closes:
            if not depth:
                raise MalformedError(f"{sign} closes nothing")
            opened = depth.pop()
            if (opened in "([") != (sign in ")]") or (opened == "{") != (sign == "}"):
                raise MalformedError(f"{sign} closes {opened}")
        found.append((sign, len(depth)))
        if sign in OPENING or sign.startswith("\\begin{"):
            depth.append(sign)
            if len(depth) > DEEPEST:
                raise MalformedError("brackets too deep")
    if depth:
        raise MalformedError(f"{depth[-1]} is not closed")
    return found


def split(text: str, at: set[str]) -> tuple[list[str], list[str]]:
    """(parts, separators) of a text at those signs where they stand outside all brackets. A text
    mark that says `and` or `or` goes by the name `or`."""
    parts: list[str] = []
    separators: list[str] = []
    part = ""
    for sign, depth in tokens(text):
        name = sign
        if sign[0] == OPEN and _JOINT.match(sign[1:-1].strip().lower()):
            name = "or"
        if depth == 0 and name in at:
            parts.append(part)
            separators.append(name)
            part = ""
        else:
            part += sign
    return [one.strip() for one in [*parts, part]], separators

"""The node types of a parsed answer, and the splitting of tidy text at its top-level signs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ictcli.rewards.maths.latex import CLOSE, OPEN


class UnreadableError(ValueError):
    """The text has no reading, or several: brackets that do not match, an empty part, `1/2x`, a
    command that is not known."""


class UndecidedError(Exception):
    """The verdict needs algebra, which the caller did not allow."""


@dataclass(frozen=True)
class Scalar:
    """One expression, in tidy LaTeX. `noun`: what it counts, which matters in a list alone."""

    text: str
    unit: str | None = None
    noun: str = field(default="", compare=False)


@dataclass(frozen=True)
class Words:
    """Words rather than mathematics: lower case, single spaces."""

    text: str


@dataclass(frozen=True)
class Exact:
    """What equals only itself, in words: `52 in base 8`, `1 modulo 3`."""

    text: str


@dataclass(frozen=True)
class Items:
    """Several answers. `brackets` is `()`, `(]`, `[)` or `[]` for a tuple or an interval, `{}` for
    a set, empty for a bare list, `=` for values of different names (Named, sorted)."""

    brackets: str
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Union:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Matrix:
    """`kind` is `cases`, `vmatrix`, `Vmatrix`, or empty for a matrix in any brackets."""

    kind: str
    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True)
class Named:
    """A value with its name: `x = 5`, `x \\in [0, 1)`, `x > 2`. `optional`: whether the value alone
    says the same."""

    name: str
    value: Node
    optional: bool = True


@dataclass(frozen=True)
class Chain:
    """Sides joined by `=`, none of them just a name."""

    sides: tuple[str, ...]


@dataclass(frozen=True)
class Nearly:
    """Sides joined by `\\approx`; the first is exact, the others should be roundings of it."""

    sides: tuple[Node, ...]


@dataclass(frozen=True)
class Inequality:
    """`left sign right`, where sign is <, <= or !=."""

    left: str
    sign: str
    right: str


@dataclass(frozen=True)
class Ratio:
    """`a : b`, or `a to b`, which is never a time (`colon` is false)."""

    terms: tuple[str, ...]
    colon: bool = True


Node = Scalar | Words | Exact | Items | Union | Matrix | Named | Chain | Nearly | Inequality | Ratio


def unnamed(node: Node) -> Node:
    """Return a node without its name."""
    return node.value if isinstance(node, Named) else node


def expand(node: Node) -> Node:
    """Return `a \\pm b` as the list of both values, `(\\pm 1, 0)` of both points, or the node."""
    if isinstance(node, Items) and node.brackets == "()":
        both = [expand(item) for item in node.items]
        double = [place for place, item in enumerate(both) if item is not node.items[place]]
        if len(double) != 1 or not isinstance(values := both[double[0]], Items):
            return node
        before, after = node.items[: double[0]], node.items[double[0] + 1 :]
        return Items("", tuple(Items("()", (*before, value, *after)) for value in values.items))
    if not isinstance(node, Scalar) or not re.search(r"\\(?:pm|mp)(?![a-zA-Z])", node.text):
        return node
    both: list[Node] = []
    for plus, minus in (("+", "-"), ("-", "+")):
        text = re.sub(r"\\pm(?![a-zA-Z])\s*", plus, node.text)
        text = re.sub(r"\\mp(?![a-zA-Z])\s*", minus, text)
        both.append(Scalar(text.lstrip("+ "), node.unit))
    return Items("", tuple(both))


REALS = Items("()", (Scalar("-\\infty"), Scalar("\\infty")))
EMPTY = Items("{}", ())

DEEPEST = 50
"""Deepest nesting of brackets that is read."""

OPENING, CLOSING = {"(", "[", "\\{", "{", "\\langle"}, {")", "]", "\\}", "}", "\\rangle"}
_TOKEN = re.compile(
    rf"\\(?:begin|end)\{{[a-z]*\*?\}}|\\[a-zA-Z]+|\\.|{OPEN}[^{CLOSE}]*{CLOSE}|.", re.S
)
_JOINTS = {"and": "and", "or": "or", "und": "and", "oder": "or"}


def tokens(text: str) -> list[tuple[str, int]]:
    """Return the signs of a tidy text, each with its bracket depth. Round and square brackets match
    each other, as in half-open intervals. Raises UnreadableError."""
    signs: list[tuple[str, int]] = []
    opened: list[str] = []
    for match in _TOKEN.finditer(text):
        sign = match[0]
        if sign in CLOSING or sign.startswith("\\end{"):
            if not opened:
                raise UnreadableError(f"{sign} closes nothing")
            opening = opened.pop()
            if (opening in "([") != (sign in ")]") or (opening == "{") != (sign == "}"):
                raise UnreadableError(f"{sign} closes {opening}")
        signs.append((sign, len(opened)))
        if sign in OPENING or sign.startswith("\\begin{"):
            opened.append(sign)
            if len(opened) > DEEPEST:
                raise UnreadableError("brackets too deep")
    if opened:
        raise UnreadableError(f"{opened[-1]} is not closed")
    return signs


def split(text: str, at: set[str]) -> tuple[list[str], list[str]]:
    """Return (parts, separators) of a tidy text, cut at the signs `at` outside all brackets. Marked
    text that says `and` or `or` counts as that sign."""
    parts = [""]
    separators: list[str] = []
    for sign, depth in tokens(text):
        joint = sign[0] == OPEN and _JOINTS.get(sign[1:-1].strip(" ,").lower())
        name = joint or sign
        if depth == 0 and name in at:
            parts.append("")
            separators.append(name)
        else:
            parts[-1] += sign
    return [part.strip() for part in parts], separators

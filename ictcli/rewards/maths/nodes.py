"""Define the nodes of a parsed answer, and split normalized LaTeX at its top-level signs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ictcli.rewards.maths.latex import CLOSE, OPEN


class UnreadableError(ValueError):
    """The text has no meaning or several: unmatched brackets, an unknown command, `1/2x`."""


class UndecidedError(Exception):
    """The verdict needs algebra, which the caller did not allow."""


@dataclass(frozen=True)
class Scalar:
    """An expression in normalized LaTeX. `noun` is what a list counts: `3 apples`."""

    text: str
    unit: str | None = None
    noun: str = field(default="", compare=False)


@dataclass(frozen=True)
class Words:
    """Words rather than mathematics: lower case, single spaces."""

    text: str


@dataclass(frozen=True)
class Exact:
    """An answer that equals only the same text: `52 in base 8`, `1 modulo 3`."""

    text: str


@dataclass(frozen=True)
class Items:
    """Several answers. `brackets` is `()`, `(]`, `[)` or `[]` for a tuple or an interval, `{}` for
    a set, empty for a list without brackets, `=` for Named values of different names, sorted."""

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
    """A value with its name: `x = 5`, `x \\in [0, 1)`, `x > 2`. Optional names may be left out."""

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
    """`a : b`, or `a to b`, for which `colon` is false and which cannot be a time of day."""

    terms: tuple[str, ...]
    colon: bool = True


Node = Scalar | Words | Exact | Items | Union | Matrix | Named | Chain | Nearly | Inequality | Ratio


def unnamed(node: Node) -> Node:
    """Return a node without its name."""
    return node.value if isinstance(node, Named) else node


def expand(node: Node) -> Node:
    """Return `a \\pm b` and `(\\pm 1, 0)` as the list of both values; other nodes unchanged."""
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
"""Maximum depth of nested brackets."""

OPENING, CLOSING = {"(", "[", "\\{", "{", "\\langle"}, {")", "]", "\\}", "}", "\\rangle"}
_TOKEN = re.compile(
    rf"\\(?:begin|end)\{{[a-z]*\*?\}}|\\[a-zA-Z]+|\\.|{OPEN}[^{CLOSE}]*{CLOSE}|.", re.S
)
_JOINTS = {"and": "and", "or": "or", "und": "and", "oder": "or"}


def tokens(text: str) -> list[tuple[str, int]]:
    """Return the tokens of normalized LaTeX, each with its bracket depth. Round and square brackets
    match each other, as in half-open intervals. UnreadableError if brackets do not match."""
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
    """Split normalized LaTeX at the signs `at` outside all brackets; return (parts, separators).
    `\\text{and}` and `\\text{or}` count as signs."""
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

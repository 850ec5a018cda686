"""What an answer can be: a scalar, words, a list, an interval, a matrix, a relation."""

from __future__ import annotations

from dataclasses import dataclass


class MalformedError(ValueError):
    """Brackets that do not match, or an empty part."""


@dataclass(frozen=True)
class Scalar:
    """One expression, in tidy LaTeX."""

    text: str
    unit: str | None = None


@dataclass(frozen=True)
class Words:
    """Words that are no mathematics: lower case, single spaces."""

    text: str


@dataclass(frozen=True)
class Numeral:
    """Digits to a base that is written down."""

    digits: str
    base: int


@dataclass(frozen=True)
class Items:
    """Several answers. `brackets` is `()`, `(]`, `[)`, `[]` for what is ordered, `{}` for a set,
    empty for a bare list."""

    brackets: str
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Union:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Matrix:
    """`kind` is empty for any brackets; a determinant and cases have their own."""

    kind: str
    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True)
class Named:
    """`x = 5`, `x \\in [0, 1)`, `x > 2`: a value, and what it is the value of."""

    name: str
    value: Node


@dataclass(frozen=True)
class Chain:
    """Sides with `=` between, no side a mere name."""

    sides: tuple[str, ...]


@dataclass(frozen=True)
class Nearly:
    """Sides with `\\approx` between."""

    sides: tuple[Node, ...]


@dataclass(frozen=True)
class Inequality:
    """`left sign right`, the sign one of <, <=, !=."""

    left: str
    sign: str
    right: str


@dataclass(frozen=True)
class Ratio:
    terms: tuple[str, ...]


Node = (
    Scalar | Words | Numeral | Items | Union | Matrix | Named | Chain | Nearly | Inequality | Ratio
)

REALS = Items("()", (Scalar("-\\infty"), Scalar("\\infty")))
EMPTY = Items("{}", ())

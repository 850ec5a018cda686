"""How a text is read, in words, for explanations of verdicts."""

from dataclasses import fields
from typing import Any

from ictcli.rewards.maths.compare import LONGEST, reading
from ictcli.rewards.maths.latex import CLOSE, OPEN, balanced, flat, tidy
from ictcli.rewards.maths.nodes import (
    EMPTY,
    REALS,
    Chain,
    Inequality,
    Items,
    Matrix,
    Named,
    Nearly,
    Node,
    Numeral,
    Ratio,
    Residue,
    Scalar,
    Union,
    Words,
)
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.structure import expand

ITEMS = {
    "": "a list in any order",
    "{}": "a set in any order",
    "()": "a tuple or open interval",
    "[]": "a list or closed interval",
}


def describe(text: str) -> str:
    """The reading of a text, as in `the number 1/2`; empty if it cannot be read."""
    node = _node(text)
    return "" if node is None else in_words(expand(node))


def listed(text: str) -> int:
    """Number of answers in a bare list or a set; 1 for anything else, 0 if it cannot be read."""
    node = _node(text)
    if node is None:
        return 0
    node = expand(node.value if isinstance(node, Named) else node)
    if isinstance(node, Items) and node.brackets in ("", "{}", "="):
        return len(node.items)
    return 1


def same_layout(answer: str, gold: str) -> bool:
    """Whether two texts differ only in how the same LaTeX is written."""
    return flat(tidy(answer)) == flat(tidy(gold))


def _node(text: str) -> Node | None:
    return reading(tidy(text)) if len(text) <= LONGEST and balanced(text) else None


def in_words(node: Node) -> str:
    """One reading in words."""
    if node == EMPTY:
        return "the empty set"
    if node == REALS:
        return "all real numbers"
    match node:
        case Scalar(text, unit):
            value = number(text)
            what = f"the expression {_plain(text)}" if value is None else f"the number {value}"
            return what + ("" if unit is None else " percent" if unit == "%" else f" in {unit}")
        case Words(text):
            return f'the words "{_plain(text)}"'
        case Numeral(digits, base):
            return f"{digits} in base {base}"
        case Items("=", items):
            return _joined(items, " and ")
        case Residue(residue, modulus):
            return f"{residue} modulo {modulus}"
        case Items(brackets, items):
            inside = _joined(items, ", ")
            kind = ITEMS.get(brackets, "an interval")
            return f"{kind}: {brackets[:1]}{inside}{brackets[1:]}"
        case Union(parts):
            return "the union of " + _joined(parts, " and ")
        case Matrix(kind, rows):
            size = f"{len(rows)} by {max(map(len, rows), default=0)}"
            return f"a {kind or 'matrix'} of {size}: " + "; ".join(_joined(r, ", ") for r in rows)
        case Named(name, value):
            return f"{_plain(name)} is {in_words(value)}"
        case Chain(sides):
            return "the equation " + " = ".join(map(_plain, sides))
        case Nearly(sides):
            return "about equal: " + _joined(sides, ", ")
        case Inequality(left, sign, right):
            return f"the inequality {_plain(left)} {sign} {_plain(right)}"
        case Ratio(terms):
            return "the ratio " + " : ".join(map(_plain, terms))
        case _:
            return _other(node)


def _joined(nodes: tuple[Node, ...], between: str) -> str:
    return between.join(map(_short, nodes))


def _short(node: Node) -> str:
    """A reading within another one: only its value if it is a plain number or expression."""
    if not isinstance(node, Scalar):
        return in_words(node)
    value = number(node.text)
    return (_plain(node.text) if value is None else str(value)) + f" {node.unit or ''}".rstrip()


def _plain(text: str) -> str:
    return text.replace(OPEN, "").replace(CLOSE, "")


def _other(node: Any) -> str:
    """A kind of node without words of its own: its name and its parts."""
    parts = (str(getattr(node, field.name)) for field in fields(node))
    return _plain(f"{type(node).__name__.lower()} " + ", ".join(parts))

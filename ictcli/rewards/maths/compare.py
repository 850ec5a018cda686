"""Compare an answer with the gold by text, structure and algebra; describe how a text is parsed."""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from ictcli.rewards.answers import boxed
from ictcli.rewards.maths import nodes
from ictcli.rewards.maths.comparison import Comparison
from ictcli.rewards.maths.finished import unfinished
from ictcli.rewards.maths.latex import CLOSE, OPEN, balanced, flat, tidy
from ictcli.rewards.maths.numbers import number, plain
from ictcli.rewards.maths.structure import read
from ictcli.rewards.maths.words import folded

LONGEST = 800
"""Maximum number of characters of a parsed answer; a longer answer must be the gold verbatim."""

Outcome = Literal["same", "unfinished", "different", "unreadable"]
_DATE = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")


def readable(gold: str) -> bool:
    """Return whether a gold can be parsed, so that answers can be compared with it."""
    return _node(content(gold)) is not None


def content(text: str) -> str:
    """Return the content of a gold's last box (or boxes, as a list); without a box, the gold."""
    return (boxed(text) or text) if "boxed" in text or "fbox" in text else text


@lru_cache(maxsize=4096)
def reading(text: str) -> nodes.Node | None:
    """Return the node that a normalized text parses to; None if it cannot be parsed."""
    try:
        return nodes.Exact(f"the date {text}") if _DATE.fullmatch(text) else read(text)
    except (nodes.UnreadableError, RecursionError):
        return None


def value(text: str) -> Fraction | None:
    """Return the exact number in a text, without its unit, name or percent sign; None if there is
    none. Also None for a percentage of at most 1, which may mean the number or its hundredth."""
    node = reading(tidy(text))
    if isinstance(node, nodes.Named) and node.optional:
        node = node.value
    if not isinstance(node, nodes.Scalar) or (node.unit or "").startswith("?"):
        return None
    exact = number(node.text)
    return None if node.unit == "%" and exact is not None and abs(exact) <= 1 else exact


def compare(answer: str, gold: str, *, algebra: bool) -> Outcome:
    """Return how an answer compares with the gold; "unfinished" if it is equal but less simplified.
    Without `algebra` this is fast and safe; UndecidedError if algebra is needed."""
    gold = content(gold)
    if answer.strip() == gold.strip() and answer.strip():
        return "same"
    exact = plain(answer.strip()), plain(gold.strip())
    if None not in exact:
        return "same" if exact[0] == exact[1] else "different"
    if len(answer) > LONGEST or len(gold) > LONGEST or not balanced(answer) or not balanced(gold):
        return "unreadable"
    left, right = tidy(gold), tidy(answer)
    if not left or not right:
        return "unreadable"
    if flat(left) == flat(right):
        return "same"
    if OPEN in left + right and folded(left) == folded(right) and len(folded(left)) > 1:
        return "same"
    (expected, actual), comparison = map(reading, (left, right)), Comparison(algebra)
    if actual is None:
        return "unreadable"
    if expected is not None and comparison.first_same([(expected, actual)]) is not None:
        left_over = unfinished(actual, expected, algebra=algebra)
        return "unfinished" if left_over else "same"
    return "unreadable" if comparison.unreadable else "different"


def describe(text: str) -> str:
    """Describe how a text is parsed, as in `the number 1/2`; empty if it cannot be parsed."""
    node = _node(text)
    return "" if node is None else in_words(nodes.expand(node))


def listed(text: str) -> int:
    """Count the answers in a set or a list without brackets; else 1, or 0 if parsing fails."""
    node = _node(text)
    if node is None:
        return 0
    node = nodes.expand(nodes.unnamed(node))
    if isinstance(node, nodes.Items) and node.brackets in ("", "{}", "="):
        return len(node.items)
    return 1


def _node(text: str) -> nodes.Node | None:
    return reading(tidy(text)) if len(text) <= LONGEST and balanced(text) else None


def in_words(node: nodes.Node) -> str:
    """Describe a node in words."""
    if node == nodes.EMPTY:
        return "the empty set"
    if node == nodes.REALS:
        return "all real numbers"
    match node:
        case nodes.Scalar(text, unit):
            value = number(text)
            what = f"the expression {_plain(text)}" if value is None else f"the number {value}"
            return what + ("" if unit is None else " percent" if unit == "%" else f" in {unit}")
        case nodes.Words(text):
            return f'the words "{_plain(text)}"'
        case nodes.Exact(text):
            return text
        case nodes.Items(brackets, items):
            kind = {"": "a list", "=": "values with their names", "{}": "a set"}.get(brackets)
            inside = ", ".join(map(_short, items))
            return f"{kind}: {inside}" if kind else f"{brackets[:1]}{inside}{brackets[1:]}"
        case nodes.Union(parts):
            return "the union of " + " and ".join(map(_short, parts))
        case nodes.Matrix(kind, rows):
            cells = "; ".join(", ".join(map(_short, row)) for row in rows)
            return f"a {kind or 'matrix'}: {cells}"
        case nodes.Named(name, value):
            return f"{_plain(name)} is {in_words(value)}"
        case nodes.Chain(sides):
            return "the equation " + " = ".join(map(_plain, sides))
        case nodes.Nearly(sides):
            return "about equal: " + ", ".join(map(_short, sides))
        case nodes.Inequality(left, sign, right):
            return f"the inequality {_plain(left)} {sign} {_plain(right)}"
        case nodes.Ratio(terms):
            return "the ratio " + " : ".join(map(_plain, terms))


def _short(node: nodes.Node) -> str:
    """Describe a node that is part of another: a number or expression by its value alone."""
    if not isinstance(node, nodes.Scalar):
        return in_words(node)
    value = number(node.text)
    return (_plain(node.text) if value is None else str(value)) + f" {node.unit or ''}".rstrip()


def _plain(text: str) -> str:
    return text.replace(OPEN, "").replace(CLOSE, "")

"""Parse equations, inequalities, ranges and ratios.

A relation that is solved for a name becomes a Named node with its value or range."""

import math
import re
from collections.abc import Callable
from typing import Any

from ictcli.rewards.maths.latex import CLOSE, GREEK, OPAQUE, OPEN, flat
from ictcli.rewards.maths.nodes import (
    REALS,
    Chain,
    Inequality,
    Items,
    Named,
    Nearly,
    Node,
    Ratio,
    Scalar,
    Union,
    UnreadableError,
    split,
    unnamed,
)
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.words import is_name_phrase

_SUBSCRIPT = r"(?:_(?:\{[^{}]*\}|\w|\\[a-zA-Z]+))?"
_SYMBOL = (
    rf"(?:[A-Za-z]|\\(?:{'|'.join(GREEK)})(?![A-Za-z])"
    rf"|\\(?:{'|'.join(OPAQUE)})(?:\{{[^{{}}]*\}}|\s[A-Za-z])){_SUBSCRIPT}'*"
)
_D = r"(?:d|\\partial)\s*"
_NAME = re.compile(
    rf"""{_SYMBOL}(?:\^\{{-1\}})?\s*(?:\([A-Za-z0-9,\s\\]*\))?       # x_1, f(x), f^{{-1}}(x)
    | \\(?:angle|triangle|overline|arc)\s*\{{?[A-Z\ ]+\}}?         # \angle ABC
    | \\frac\{{{_D}(\^\{{\d\}})?\s*{_SYMBOL}\}}\{{{_D}{_SYMBOL}\s*(?:\1)?\}}        # dy/dx
    | m\s*\\angle\s*[A-Z]+ | [A-Z]{{2,4}} | \|[A-Z]{{2,4}}\|
    | (?:P|E|\\Pr|\\mathbb\{{[PE]\}}|{OPEN}(?:Var|Pr){CLOSE})\s*
      (?:\([^()]*\)|\[[^\[\]]*\])                               # P(A), E[X]
    | (?:{OPEN}[^{CLOSE}]*{CLOSE}|[A-Za-z]{{3,}}+|\s)++(?:{_SYMBOL})?  # Area, the radius r
    | \(\s*{_SYMBOL}(?:\s*,\s*{_SYMBOL})+\s*\)                      # (x, y)
    """,
    re.X,
)
_OF_EVENT = re.compile(rf"^(?:P|E|\\Pr|\\mathbb\{{[PE]\}}|{OPEN}(?:Var|Pr){CLOSE})\s*[(\[].*")
_WORD_INDEX = re.compile(rf"_\{{[{OPEN}{CLOSE}A-Za-z ]*\}}")
_SIGNS = {"<": "<", ">": ">", "\\le": "<=", "\\ge": ">=", "\\ne": "!="}
_TIME = re.compile(r"(?:[01]?\d|2[0-4])(?::[0-5]\d){1,2}")
_SEGMENT = re.compile(r"\|([A-Z]{2})\|")
_OPAQUE = {"\\Rightarrow", "\\Leftrightarrow", "\\to", "\\equiv"}


def relation(text: str, node: Callable[[str], Node]) -> Node | None:
    """Return the node of an equation, inequality, congruence or membership, with sides parsed by
    `node`; None for other texts. Other relations become a Scalar that algebra cannot read."""
    parts, signs = split(text, {"=", *_SIGNS, "\\in", "\\approx", *_OPAQUE})
    statement = Scalar(text)
    if "\\pmod" in text:
        return statement
    if not signs:
        return None
    if "" in parts:
        if parts[0] or "" in parts[1:]:
            raise UnreadableError("a relation without a side")
        if signs[0] not in ("=", "\\approx"):
            return None
        return node(text.removeprefix("=").removeprefix("\\approx").strip())
    if _OPAQUE & set(signs):
        return statement
    if signs == ["\\in"]:
        values = node(parts[1])
        solved = is_name(parts[0]) and isinstance(values, Items | Union)
        return Named(name_of(parts[0]), values) if solved else statement
    if set(signs) <= {"=", "\\approx"}:
        if signs[0] == "\\approx" and is_name(parts[0]):
            return _named(parts[0], node(text.partition("\\approx")[2].strip())) or statement
        if "\\approx" in signs:
            return _approximation(parts, signs, node) or statement
        if is_name(parts[0]):
            twice = len(parts) > 2 and is_name(parts[1])
            return (not twice and _named(parts[0], node(" = ".join(parts[1:])))) or statement
        if len(parts) == 2 and is_name(parts[1]):
            return _named(parts[1], node(parts[0])) or statement
        return Chain(tuple(parts))
    if not set(signs) <= set(_SIGNS):
        return None
    return _inequality(parts, [_SIGNS[sign] for sign in signs], node)


def _approximation(parts: list[str], signs: list[str], node: Callable[[str], Node]) -> Node | None:
    """Return a Nearly node of the exact value and its roundings; None if `=` follows `\\approx`."""
    at = signs.index("\\approx")
    if "=" in signs[at:]:
        return None
    exact, *roundings = node(" = ".join(parts[: at + 1])), *map(node, parts[at + 1 :])
    if isinstance(exact, Named):
        roundings = [Named(exact.name, rounding, exact.optional) for rounding in roundings]
    return Nearly((exact, *roundings))


def _named(name: str, value: Node) -> Node | None:
    """Return `value` with a name, which is optional if no word in it changes the value. None if
    `value` has a name already."""
    if isinstance(value, Named):
        return None
    whole, name = name, _WORD_INDEX.sub("", re.sub(_OF_EVENT, "", name))
    runs = re.sub(r"\b[a-zA-Z](?:_\S+)?$", "", name.replace(OPEN, " ").replace(CLOSE, " "))
    wordy = OPEN in name or re.search(r"(?<![\\A-Za-z])(?![A-Z]+\b)[A-Za-z]{3,}", name)
    return Named(name_of(whole), value, not wordy or is_name_phrase(runs))


def is_name(text: str) -> bool:
    """Return whether `text` can name a value: a symbol, f(x), \\angle ABC, words, (x, y)."""
    return bool(_NAME.fullmatch(text.strip())) and text.strip() not in ("e", "i")


def name_of(text: str) -> str:
    """Return a name without spaces, braces and text marks, and the segment |AB| as AB."""
    name = re.sub(r"\s+|[{}]", "", text.replace(OPEN, "").replace(CLOSE, ""))
    return _SEGMENT.sub(r"\1", name)


def _inequality(parts: list[str], signs: list[str], node: Callable[[str], Node]) -> Node | None:
    """Return the range of a name if the inequality is solved for it, else an Inequality with its
    smaller side left; None if `<` and `>` are mixed."""
    if all(sign[0] == ">" for sign in signs):
        parts, signs = parts[::-1], [sign.replace(">", "<") for sign in signs[::-1]]
    if any(sign[0] == ">" for sign in signs):
        return None
    if len(parts) == 3 and is_name(parts[1]) and "!=" not in signs:
        low, high = node(parts[0]), node(parts[2])
        return Named(name_of(parts[1]), _range(low, signs[0], signs[1], high))
    if len(parts) != 2:
        return None
    (left, right), sign = parts, signs[0]
    low, high = REALS.items
    if sign == "!=":
        if not is_name(left) or number(right) is None:
            return Inequality(left, sign, right)
        hole = Scalar(right)
        rays = _range(low, "<", "<", hole), _range(hole, "<", "<", high)
        return Named(name_of(left), Union(rays))
    if is_name(left) == is_name(right):
        return Inequality(left, sign, right)
    if is_name(left):
        return Named(name_of(left), _range(low, "<", sign, node(right)))
    return Named(name_of(right), _range(node(left), sign, "<", high))


def _range(low: Node, lower: str, upper: str, high: Node) -> Items:
    return Items(("(" if lower == "<" else "[") + (")" if upper == "<" else "]"), (low, high))


def difference(node: Node) -> str | None:
    """Return the left side of an equation minus its right side, as text; else None."""
    if isinstance(node, Chain) and len(node.sides) == 2:
        return f"({node.sides[0]})-({node.sides[1]})"
    if isinstance(node, Named) and isinstance(node.value, Scalar) and not node.value.unit:
        return f"({node.name})-({node.value.text})"
    return None


def as_inequality(node: Node) -> Inequality | None:
    """Return an inequality, also for a name with a range like (-\\infty, 1); else None."""
    match node:
        case Inequality():
            return node
        case Named(name, Items("()" | "(]" | "[)" as ends, (Scalar() as low, Scalar() as high))):
            if low == REALS.items[0]:
                return Inequality(name, "<" if ends[1] == ")" else "<=", high.text)
            if flat(high.text) == "\\infty":
                return Inequality(low.text, "<" if ends[0] == "(" else "<=", name)
        case _:
            pass
    return None


def ranges(node: Node) -> list[tuple[Any, ...]] | None:
    """Return the intervals of a node as (low, low is excluded, high, high is included), sorted and
    with touching ones merged. None if the node is not made of numeric intervals."""
    parts = node.parts if isinstance(node, Union) else (node,)
    intervals: list[tuple[Any, ...]] = []
    if len({part.name for part in parts if isinstance(part, Named)}) > 1:
        return None
    for part in map(unnamed, parts):
        if not isinstance(part, Items) or part.brackets in ("", "{}") or len(part.items) != 2:
            return None
        low, high = map(endpoint, part.items)
        if low is None or high is None:
            return None
        intervals.append((low, part.brackets[0] == "(", high, part.brackets[1] == "]"))
    intervals.sort()
    merged = intervals[:1]
    for low, opened, high, closed in intervals[1:]:
        end, end_closed = merged[-1][2:]
        if (low, opened) <= (end, end_closed) and not (low == end and opened and not end_closed):
            merged[-1] = (*merged[-1][:2], *max((end, end_closed), (high, closed)))
        else:
            merged.append((low, opened, high, closed))
    return merged


def endpoint(node: Node) -> Any:
    """Return the number or infinity of an interval's endpoint; None for other nodes."""
    if not isinstance(node, Scalar) or node.unit:
        return None
    text = flat(node.text).lstrip("+")
    return {"\\infty": math.inf, "-\\infty": -math.inf}.get(text, number(node.text))


def ratio_terms(node: Node) -> list[str] | None:
    """Return the terms of a ratio, or a number's numerator and denominator; else None."""
    if isinstance(node, Ratio):
        return list(node.terms)
    if isinstance(node, Scalar) and not node.unit and (value := number(node.text)) is not None:
        return [str(value.numerator), str(value.denominator)]
    return None


def is_time(node: Node) -> bool:
    """Return whether a ratio can be a time of day or a duration, `H:MM` or `H:MM:SS`."""
    return isinstance(node, Ratio) and bool(node.colon and _TIME.fullmatch(":".join(node.terms)))

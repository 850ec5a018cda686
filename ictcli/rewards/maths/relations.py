"""Equations, inequalities, ranges and ratios.

A relation solved for a name becomes the name with its value or range.
"""

import math
import re
from collections.abc import Callable
from typing import Any

from ictcli.rewards.maths.latex import CLOSE, FUNCTIONS, OPEN, flat
from ictcli.rewards.maths.nodes import (
    REALS,
    Chain,
    Inequality,
    Items,
    MalformedError,
    Named,
    Nearly,
    Node,
    Ratio,
    Scalar,
    Union,
    split,
)
from ictcli.rewards.maths.numbers import number

_SUBSCRIPT = r"(?:_(?:\{[^{}]*\}|\w|\\[a-zA-Z]+))?"
_NOT_A_NAME = "|".join(("frac", "sqrt", r"pi\b", "infty", "pm", "mp", *FUNCTIONS))
_SYMBOL = rf"(?:[A-Za-z]|\\(?!{_NOT_A_NAME})[a-zA-Z]++(?:\{{[^{{}}]*\}})?){_SUBSCRIPT}'*"
_NAME = re.compile(
    rf"""{_SYMBOL}(?:\^\{{-1\}})?\s*(?:\([A-Za-z0-9,\s\\]*\))?       # x_1, f(x), f^{{-1}}(x)
    | \\(?:angle|triangle|overline|arc)\s*\{{?[A-Z\ ]+\}}?         # \angle ABC
    | m\s*\\angle\s*[A-Z]+ | [A-Z]{{2,4}} | \|[A-Za-z\ ]+\|
    | (?:{OPEN}[^{CLOSE}]*{CLOSE}|[A-Za-z]{{3,}}+|\s)++(?:{_SYMBOL})?  # Area, the radius r
    | \(\s*{_SYMBOL}(?:\s*,\s*{_SYMBOL})+\s*\)                      # (x, y)
    """,
    re.X,
)
_SIGNS = {"<": "<", ">": ">", "\\le": "<=", "\\ge": ">=", "\\ne": "!="}


def relation(text: str, node: Callable[[str], Node]) -> Node | None:
    """An equation, inequality or membership whose sides `node` parses; None for other text."""
    parts, signs = split(text, {"=", *_SIGNS, "\\in", "\\approx", "\\Rightarrow"})
    if not signs:
        return None
    if "" in parts:
        if parts[0] or "" in parts[1:]:
            raise MalformedError("a relation without a side")
        if signs[0] not in ("=", "\\approx"):
            return None
        return node(text.lstrip("=").removeprefix("\\approx").strip())
    if "\\Rightarrow" in signs:
        return node(split(text, {"\\Rightarrow"})[0][-1])
    if signs == ["\\in"]:
        return Named(name_of(parts[0]), node(parts[1])) if is_name(parts[0]) else None
    if "\\approx" in signs and set(signs) <= {"=", "\\approx"}:
        at = signs.index("\\approx")
        exact = " = ".join(parts[: at + 1])
        return Nearly((node(exact), *(node(part) for part in parts[at + 1 :])))
    if set(signs) == {"="}:
        if is_name(parts[0]):
            return Named(name_of(parts[0]), node(" = ".join(parts[1:])))
        if len(parts) == 2 and is_name(parts[1]):
            return Named(name_of(parts[1]), node(parts[0]))
        return Chain(tuple(parts))
    if not set(signs) <= set(_SIGNS):
        return None
    return _inequality(parts, [_SIGNS[sign] for sign in signs], node)


def is_name(text: str) -> bool:
    """Whether an answer can be the value of `text`: a symbol, f(x), \\angle ABC, words, (x, y)."""
    return bool(_NAME.fullmatch(text.strip())) and text.strip() not in ("e", "i")


def name_of(text: str) -> str:
    """A name without spaces, braces and text marks."""
    return re.sub(r"\s+|[{}]", "", text.replace(OPEN, "").replace(CLOSE, ""))


def _inequality(parts: list[str], signs: list[str], node: Callable[[str], Node]) -> Node | None:
    """The range of a name the inequality is solved for; else the inequality, smaller side left."""
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
        return Named(
            name_of(left), Union((_range(low, "<", "<", hole), _range(hole, "<", "<", high)))
        )
    if symbol := re.fullmatch(r"\|\s*([a-zA-Z])\s*\|", left):
        return Named(symbol[1], _range(Scalar(f"-({right})"), sign, sign, node(right)))
    if is_name(left) == is_name(right):
        return Inequality(left, sign, right)
    if is_name(left):
        return Named(name_of(left), _range(low, "<", sign, node(right)))
    return Named(name_of(right), _range(node(left), sign, "<", high))


def _range(low: Node, lower: str, upper: str, high: Node) -> Items:
    """The interval between two ends; the signs `lower` and `upper` are < or <=."""
    return Items(("(" if lower == "<" else "[") + (")" if upper == "<" else "]"), (low, high))


def difference(node: Node) -> str | None:
    """Left side minus right side of an equation with two sides."""
    if isinstance(node, Chain) and len(node.sides) == 2:
        return f"({node.sides[0]})-({node.sides[1]})"
    if isinstance(node, Named) and isinstance(node.value, Scalar):
        return f"({node.name})-({node.value.text})"
    return None


def ranges(node: Node) -> list[tuple[Any, ...]] | None:
    """The numeric intervals of a node, sorted and merged where they touch: (low, low is excluded,
    high, high is included). None for any other node."""
    parts = node.parts if isinstance(node, Union) else (node,)
    intervals: list[tuple[Any, ...]] = []
    if len({part.name for part in parts if isinstance(part, Named)}) > 1:
        return None
    for part in parts:
        part = part.value if isinstance(part, Named) else part
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
    """An endpoint of an interval as a number, or None."""
    if not isinstance(node, Scalar) or node.unit:
        return None
    text = flat(node.text).lstrip("+")
    infinite = {"\\infty": math.inf, "-\\infty": -math.inf}
    return infinite[text] if text in infinite else number(node.text)


def ratio_terms(node: Node) -> list[str] | None:
    """The terms of a ratio; a number is the ratio of its numerator to its denominator."""
    if isinstance(node, Ratio):
        return list(node.terms)
    if isinstance(node, Scalar) and not node.unit and (value := number(node.text)) is not None:
        return [str(value.numerator), str(value.denominator)]
    return None

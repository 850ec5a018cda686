"""Equations and inequalities, those solved for a name as its value or range."""

from __future__ import annotations

import re
from collections.abc import Callable

from ictcli.rewards.maths.latex import CLOSE, OPEN
from ictcli.rewards.maths.nodes import (
    REALS,
    Chain,
    Inequality,
    Items,
    MalformedError,
    Named,
    Nearly,
    Node,
    Scalar,
    Union,
)
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.spelling import FUNCTIONS
from ictcli.rewards.maths.splitting import split

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
    """An equation, an inequality, a membership; `node` reads their sides. None for what has none
    of their signs."""
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
        last = len(signs) - signs[::-1].index("\\Rightarrow")
        rest = parts[last]
        for sign, part in zip(signs[last:], parts[last + 1 :], strict=True):
            rest += f" {sign} {part}"
        return node(rest)
    if signs == ["\\in"]:
        return Named(name_of(parts[0]), node(parts[1])) if is_name(parts[0]) else None
    if set(signs) == {"\\approx"} or set(signs) == {"=", "\\approx"}:
        at = signs.index("\\approx")
        exact = " = ".join(parts[: at + 1])
        return Nearly((node(exact), *(node(part) for part in parts[at + 1 :])))
    if set(signs) == {"="}:
        if is_name(parts[0]):
            return Named(name_of(parts[0]), node(" = ".join(parts[1:])))
        if len(parts) == 2 and is_name(parts[1]):
            return Named(name_of(parts[1]), node(parts[0]))
        return Chain(tuple(parts))
    if all(sign in _SIGNS for sign in signs):
        return _inequality(parts, [_SIGNS[sign] for sign in signs], node)
    return None


def is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text.strip())) and text.strip() not in ("e", "i")


def name_of(text: str) -> str:
    return re.sub(r"\s+|[{}]", "", text.replace(OPEN, "").replace(CLOSE, ""))


def _inequality(parts: list[str], signs: list[str], node: Callable[[str], Node]) -> Node | None:
    """Solved for a name, a range; else as it stands, the smaller side on the left."""
    if all(sign[0] == ">" for sign in signs):
        parts, signs = parts[::-1], [sign.replace(">", "<") for sign in signs[::-1]]
    if any(sign[0] == ">" for sign in signs):
        return None
    if len(parts) == 3 and is_name(parts[1]) and "!=" not in signs:
        brackets = ("(" if signs[0] == "<" else "[") + (")" if signs[1] == "<" else "]")
        return Named(name_of(parts[1]), Items(brackets, (node(parts[0]), node(parts[2]))))
    if len(parts) != 2:
        return None
    (left, right), sign = parts, signs[0]
    if sign == "!=" and is_name(left) and number(right) is not None:
        hole = Scalar(right)
        low, high = REALS.items
        return Named(name_of(left), Union((Items("()", (low, hole)), Items("()", (hole, high)))))
    if (found := re.fullmatch(r"\|\s*([a-zA-Z])\s*\|", left)) and sign != "!=":
        brackets = "()" if sign == "<" else "[]"
        return Named(found[1], Items(brackets, (Scalar(f"-({right})"), node(right))))
    if sign != "!=" and is_name(left) != is_name(right):
        if is_name(left):
            brackets = "()" if sign == "<" else "(]"
            return Named(name_of(left), Items(brackets, (Scalar("-\\infty"), node(right))))
        brackets = "()" if sign == "<" else "[)"
        return Named(name_of(right), Items(brackets, (node(left), Scalar("\\infty"))))
    return Inequality(left, sign, right)

"""Intervals as numbers, equations as one side, ratios as terms."""

from __future__ import annotations

import math
from typing import Any

from ictcli.rewards.maths.latex import flat
from ictcli.rewards.maths.nodes import Chain, Items, Named, Node, Ratio, Scalar, Union
from ictcli.rewards.maths.numbers import number


def difference(node: Node) -> str | None:
    """Left side less right side of an equation with two sides."""
    if isinstance(node, Chain) and len(node.sides) == 2:
        return f"({node.sides[0]})-({node.sides[1]})"
    if isinstance(node, Named) and isinstance(node.value, Scalar):
        return f"({node.name})-({node.value.text})"
    return None


def ranges(node: Node) -> list[tuple[Any, ...]] | None:
    """Intervals with numbers for ends, sorted and joined where they touch: (low, whether it is
    left out, high, whether it belongs). None where it is something else."""
    parts = node.parts if isinstance(node, Union) else (node,)
    found: list[tuple[Any, ...]] = []
    if len({part.name for part in parts if isinstance(part, Named)}) > 1:
        return None
    for part in parts:
        part = part.value if isinstance(part, Named) else part
        if not isinstance(part, Items) or part.brackets in ("", "{}") or len(part.items) != 2:
            return None
        low, high = (end(item) for item in part.items)
        if low is None or high is None:
            return None
        found.append((low, part.brackets[0] == "(", high, part.brackets[1] == "]"))
    found.sort()
    joined = found[:1]
    for low, opened, high, closed in found[1:]:
        before = joined[-1]
        if (low, opened) <= (before[2], before[3]) and not (
            low == before[2] and opened and not before[3]
        ):
            joined[-1] = (*before[:2], *max(before[2:], (high, closed)))
        else:
            joined.append((low, opened, high, closed))
    return joined


def end(node: Node) -> Any:
    """An end of an interval as a number."""
    if not isinstance(node, Scalar) or node.unit:
        return None
    text = flat(node.text).lstrip("+")
    infinite = {"\\infty": math.inf, "-\\infty": -math.inf}
    return infinite[text] if text in infinite else number(node.text)


def ratio_terms(node: Node) -> list[str] | None:
    """2:3 as its terms; a fraction is the ratio of its value to 1."""
    if isinstance(node, Ratio):
        return list(node.terms)
    if isinstance(node, Scalar) and not node.unit and (value := number(node.text)) is not None:
        return [str(value.numerator), str(value.denominator)]
    return None

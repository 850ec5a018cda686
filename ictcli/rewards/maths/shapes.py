"""Whether two formulas are written alike, and whether two equations say the same: by exact
arithmetic alone."""

from fractions import Fraction
from functools import lru_cache
from math import prod
from zlib import crc32

from ictcli.rewards.maths.trees import Tree, powers, rational

_POINTS = 4
_HIGHEST = 20
"""The highest power whose value is computed."""


@lru_cache(maxsize=8192)
def shape(tree: Tree) -> str:
    """A formula as text without signs, factors 1, terms 0 and the order of terms, factors and
    sides. Sums and products are kept apart; equal factors are a power, a root is one, and 0.5 is
    1/2."""
    if (value := rational(tree)) is not None:
        return str(abs(value))
    factors = powers(tree)
    if factors[0][0] is not tree:
        found: dict[str, Fraction] = {}
        for base, power in factors:
            if rational(base) not in (1, -1):
                name = shape(base)
                found[name] = found.get(name, Fraction(0)) + power
        forms = sorted(f"{name}^{power}" for name, power in found.items() if power)
        return forms[0].removesuffix("^1") if len(forms) == 1 else f"*({' '.join(forms)})"
    forms = [shape(part) for part in tree.parts]
    if tree.head in ("+", "="):
        forms = sorted(form for form in forms if tree.head == "=" or form != "0")
    if tree.head == "+" and len(forms) == 1:
        return forms[0]
    return f"{tree.head}({' '.join(forms)})" if forms else tree.head


def same_equation(first: Tree, second: Tree) -> bool:
    """Whether one equation of two sides is the other times a constant, terms moved. False where
    one holds more than sums, products, quotients and whole powers."""
    pairs = [(_difference(first, place), _difference(second, place)) for place in range(_POINTS)]
    (left, right), *others = pairs
    if not left or not right or len({a for a, _ in pairs}) == 1:
        return False
    return all(a is not None and b is not None and a * right == b * left for a, b in others)


def _difference(equation: Tree, place: int) -> Fraction | None:
    if equation.head != "=" or len(equation.parts) != 2:
        return None
    left, right = (_value(side, place) for side in equation.parts)
    return None if left is None or right is None else left - right


def _value(tree: Tree, place: int) -> Fraction | None:
    """The value where each symbol has a number of its own."""
    if (exact := rational(tree)) is not None:
        return exact
    if not tree.parts:
        return Fraction(crc32(f"{place} {tree.head}".encode()) % 9973 + 2, 97)
    values = [value for part in tree.parts if (value := _value(part, place)) is not None]
    if len(values) < len(tree.parts):
        return None
    match tree.head:
        case "+":
            return sum(values, Fraction(0))
        case "-":
            return -values[0]
        case "*":
            return prod(values, start=Fraction(1))
        case "/":
            return values[0] / values[1] if values[1] else None
        case "^" if values[1].denominator == 1 and abs(values[1]) <= _HIGHEST and values[0]:
            return values[0] ** values[1].numerator
        case _:
            return None

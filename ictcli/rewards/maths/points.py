"""The points at which two expressions are compared: fixed ones, and one in each part that absolute
values, maxima, floors, roots and logarithms divide the numbers into.

Without the latter `100 - x` is `|x - 100|` at every fixed point.
"""

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any, cast

import sympy as _sympy  # pyright: ignore[reportMissingTypeStubs]

sympy = cast(Any, _sympy)

ENOUGH = 3
"""Number of points at which both must be defined and agree."""
COUNTS = (sympy.factorial, sympy.binomial, sympy.Sum, sympy.Product)
"""What counts something: its symbols are whole numbers."""

_POINTS = (
    *("7/3", "-5/2", "11/13", "-3/7", "19/6", "29/10", "-13/4", "1/3", "37/5", "53/4"),
    *("101/7", "-77/9", "4", "-2", "9"),
)
_WHOLE = ("3", "5", "4", "7", "2", "6", "8", "9", "11", "10", "13", "12")
_FAR = (-(10**12), -1000, -40, 40, 1000, 10**12)
_MOST_BREAKS = 20
_LARGEST_COUNTED = 200
_STEPS = (sympy.floor, sympy.ceiling)
_SIDES = (sympy.Abs, sympy.sign, sympy.log)
_EXTREMES = (sympy.Max, sympy.Min)
_ARCS = (sympy.asin, sympy.acos)

Point = dict[Any, Any]
"""The value of each symbol."""


def points(left: Any, right: Any) -> Iterator[Point]:
    """The points for two expressions; symbols that count something get whole numbers."""
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    counts = left.atoms(*COUNTS) | right.atoms(*COUNTS)
    counted = {symbol for count in counts for symbol in count.free_symbols}
    for index in range(len(_POINTS) + ENOUGH):
        yield _fixed(symbols, counted, index)
    switches = {switch for each in (left, right) for switch in _switches(each)}
    if not switches:
        return
    start = _fixed(symbols, counted, 0)
    for symbol in symbols:
        others = {other: value for other, value in start.items() if other != symbol}
        for value in _between_breaks([each.subs(others) for each in switches], symbol):
            if symbol not in counted:
                yield start | {symbol: value}
            elif 0 < round(value) <= _LARGEST_COUNTED:
                yield start | {symbol: sympy.Integer(round(value))}


def _fixed(symbols: list[Any], counted: set[Any], index: int) -> Point:
    point: Point = {}
    for place, symbol in enumerate(symbols):
        values = _WHOLE if symbol in counted else _POINTS  # of 12 and 15, both coprime to 7
        value = sympy.Rational(values[(index + 7 * place) % len(values)]) + place // len(values)
        # the last points are those where roots and logarithms are real
        point[symbol] = value if index < len(_POINTS) else abs(value) + 1
    return point


def _switches(expression: Any) -> Iterator[Any]:
    """Expressions at whose zeros this one may become another."""
    for part in sympy.preorder_traversal(expression):
        if isinstance(part, _SIDES) or (part.is_Pow and not part.exp.is_Integer):
            yield part.args[0]
        elif isinstance(part, _EXTREMES):
            yield from (a - b for a, b in combinations(part.args, 2))
        elif isinstance(part, (*_STEPS, *_ARCS)):
            ends = (-1, 0, 1) if isinstance(part, _STEPS) else (-1, 1)
            yield from (part.args[0] - end for end in ends)


def _between_breaks(switches: list[Any], symbol: Any) -> Iterator[Any]:
    """A value of a symbol below, between and above the zeros of switches; where these are not those
    of polynomials, some far values."""
    zeros: set[float] = set()
    for switch in switches:
        for plain in (switch.replace(sympy.Abs, _itself), switch.replace(sympy.Abs, _negative)):
            above = sympy.fraction(sympy.together(plain))[0]
            if symbol not in above.free_symbols:
                continue
            if not above.is_polynomial(symbol):
                yield from map(sympy.Integer, _FAR)
                continue
            roots = sympy.Poly(above, symbol).nroots(maxsteps=200)
            zeros.update(float(root) for root in roots if root.is_real)
    breaks = sorted(sorted(zeros, key=abs)[:_MOST_BREAKS])
    if breaks:
        far = max(1.0, abs(breaks[0]), abs(breaks[-1]))
        for low, high in pairwise([breaks[0] - far, *breaks, breaks[-1] + far]):
            yield sympy.Rational((low + high) / 2)


def _itself(inside: Any) -> Any:
    return inside


def _negative(inside: Any) -> Any:
    return -inside

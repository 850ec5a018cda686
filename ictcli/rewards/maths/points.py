"""The points at which two expressions are compared: fixed ones, and one in each part that absolute
values, maxima, floors, roots and logarithms divide the numbers into.

Without the latter `100 - x` is `|x - 100|` at every fixed point. The parts are found exactly, by
isolating the real roots of polynomials.
"""

from collections.abc import Iterator
from functools import lru_cache
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
_LARGEST_DEGREE = 40
_LARGEST_COUNTED = 200
_STEPS = (sympy.floor, sympy.ceiling)
_SIDES = (sympy.Abs, sympy.sign)
_EXTREMES = (sympy.Max, sympy.Min)
_ARCS = (sympy.asin, sympy.acos)

Point = dict[Any, Any]
"""The value of each symbol."""


def points(left: Any, right: Any, conditions: frozenset[Any]) -> Iterator[Point]:
    """The points for two expressions and what must not be negative in them; symbols that count
    something get whole numbers."""
    symbols = _symbols(left, right, conditions)
    for index in range(len(_POINTS) + ENOUGH):
        yield _fixed(symbols, _counted(left, right), index)
    yield from parts(left, right, conditions) or ()


def _symbols(left: Any, right: Any, conditions: frozenset[Any]) -> list[Any]:
    return sorted(
        {symbol for each in (left, right, *conditions) for symbol in each.free_symbols}, key=str
    )


def _counted(left: Any, right: Any) -> set[Any]:
    counts = left.atoms(*COUNTS) | right.atoms(*COUNTS)
    return {symbol for count in counts for symbol in count.free_symbols}


@lru_cache(maxsize=64)
def parts(left: Any, right: Any, conditions: frozenset[Any]) -> list[Point] | None:
    """A point in each part, along a line for each symbol; None if the parts cannot be told."""
    turns = {turn for each in (left, right) for turn in _turns(each)}
    edges = {edge for each in (left, right) for edge in _edges(each)} | conditions
    steps = {step.args[0] for each in (left, right) for step in each.atoms(*_STEPS)}
    if any(len(turn.free_symbols) > 1 for turn in turns) or len(steps) > 1:
        return None
    if not turns | edges | steps:
        return []
    symbols, counted = _symbols(left, right, conditions), _counted(left, right)
    start = _fixed(symbols, counted, 0)
    found: list[Point] = []
    for symbol in symbols:
        others = {other: value for other, value in start.items() if other != symbol}
        switches = [each.subs(others) for each in turns | edges]
        for step in (each.subs(others) for each in steps if symbol in each.free_symbols):
            if not step.is_polynomial(symbol) or sympy.degree(step, symbol) != 1:
                return None
            switches.extend(step - end for end in (-1, 0, 1))
            found.extend(start | {symbol: sympy.Integer(value)} for value in _FAR)
        values = _between_breaks([each for each in switches if symbol in each.free_symbols], symbol)
        if values is None:
            return None
        if symbol in counted:
            values = [sympy.Integer(n) for v in values if 0 < (n := round(v)) <= _LARGEST_COUNTED]
        found.extend(start | {symbol: value} for value in values)
    return found


def _fixed(symbols: list[Any], counted: set[Any], index: int) -> Point:
    point: Point = {}
    for place, symbol in enumerate(symbols):
        values = _WHOLE if symbol in counted else _POINTS  # of 12 and 15, both coprime to 7
        value = sympy.Rational(values[(index + 7 * place) % len(values)]) + place // len(values)
        # the last points are those where roots and logarithms are real
        point[symbol] = value if index < len(_POINTS) else abs(value) + 1
    return point


def _turns(expression: Any) -> Iterator[Any]:
    """Expressions at whose zeros this one becomes another."""
    for part in sympy.preorder_traversal(expression):
        if isinstance(part, _SIDES):
            yield from sympy.factor_terms(part.args[0]).as_powers_dict()
        elif isinstance(part, _EXTREMES):
            yield from (a - b for a, b in combinations(part.args, 2))


def _edges(expression: Any) -> Iterator[Any]:
    """Expressions at whose zeros this one may cease to be real."""
    for part in sympy.preorder_traversal(expression):
        if isinstance(part, sympy.log) or (part.is_Pow and not part.exp.is_Integer):
            yield part.args[0]
        elif isinstance(part, _ARCS):
            yield from (part.args[0] - end for end in (-1, 1))


def _between_breaks(switches: list[Any], symbol: Any) -> list[Any] | None:
    """A rational value of a symbol below, between and above the zeros and poles of switches; None
    if one of these is no algebraic function over the rationals."""
    product = sympy.Poly(1, symbol, domain="QQ")
    for switch in switches:
        if switch.is_positive or switch.is_negative:
            continue
        for side in sympy.fraction(sympy.together(switch)):
            polynomial = _without_radicals(side, symbol)
            if polynomial is None:
                return None
            product = product.lcm(polynomial.sqf_part())
    if product.degree() > _LARGEST_DEGREE:
        return None
    if product.degree() < 1:
        return []
    breaks = [interval for interval, _ in product.intervals()]
    values = [breaks[0][0] - 1]
    for (low, high), (below, above) in pairwise(breaks):
        steps = 1
        while high >= below:
            if low < high:
                low, high = product.refine_root(low, high, steps=steps)
            if below < above:
                below, above = product.refine_root(below, above, steps=steps)
            steps *= 2
        values.append((high + below) / 2)
    return [*values, breaks[-1][1] + 1]


def _without_radicals(side: Any, symbol: Any) -> Any:
    """A polynomial over the rationals that is 0 wherever `side` is; None if there is none."""
    while radical := next(
        (part for part in sympy.preorder_traversal(side) if _radical(part)), None
    ):
        value = sympy.Dummy()
        if isinstance(radical, sympy.Abs):
            relation = value**2 - radical.args[0] ** 2
        else:
            relation = value**radical.exp.q - radical.base**radical.exp.p
        pair = [
            sympy.fraction(sympy.together(each))[0]
            for each in (side.xreplace({radical: value}), relation)
        ]
        if not all(each.is_polynomial(value) for each in pair):
            return None
        side = sympy.expand(sympy.resultant(*pair, value))
    try:
        polynomial = sympy.Poly(side, symbol, domain="QQ")
    except sympy.PolynomialError:  # CoercionFailed for a coefficient like pi is one
        return None
    return None if polynomial.is_zero else polynomial


def _radical(part: Any) -> bool:
    if isinstance(part, sympy.Abs):
        return True
    return part.is_Pow and part.exp.is_Rational and not part.exp.is_Integer

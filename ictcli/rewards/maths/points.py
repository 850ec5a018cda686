"""The points at which two expressions are compared: random ones, some for each choice of the signs
of the unknowns, and one in each part that absolute values, maxima, floors, roots and logarithms
divide the numbers into.

Without the latter `100 - x` is `|x - 100|` at every point near 0. The parts are found exactly, by
isolating the real roots of polynomials. The seed is made of both texts: a verdict repeats, and an
answer cannot be made for the points, as another answer has others.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, pairwise, product
from math import prod
from random import Random
from typing import Any

import sympy

from ictcli.rewards.maths.algebra import LARGEST_COUNT

ENOUGH = 3
"""Number of points at which both must be defined and agree."""
COUNTS = (sympy.factorial, sympy.binomial)
"""What counts something: its symbols are whole numbers."""

_POINTS = 6
"""Number of points of either kind: with any values, and with positive ones."""
_FINEST = 2**64
_LARGEST_SIZES = (1, 4, 8)
"""How far from 0 the points of one choice of signs lie."""
_MOST = 32
"""Choices of signs, or of parts of several lines, that are tried; of more, so many random ones."""
_WHOLE = ((3, 40), (LARGEST_COUNT + 1, LARGEST_COUNT + 400))
"""Whole numbers that a symbol gets: small ones, and ones beyond every count that is read, as
binom(n, 60) is 0 up to 59."""
_FAR = (-(10**12), -1000, -40, 40, 1000, 10**12)
_LARGEST_DEGREE = 40
_LARGEST_COUNTED = 200

Point = dict[Any, Fraction]
"""The value of each symbol."""


def points(left: Any, right: Any, conditions: frozenset[Any], seed: str) -> Iterator[Point]:
    """The points for two expressions and what must not be negative in them; symbols that count
    something get whole numbers."""
    symbols, random = _symbols(left, right, *conditions), Random(seed)
    for index in range(2 * _POINTS):
        # roots and logarithms are real at the later points
        yield _drawn(symbols, left, right, random, positive=index >= _POINTS)
    # `\sqrt{xy}` is `\sqrt{x}\sqrt{y}` but where both are negative; what only counts has one sign
    signed = [symbol for symbol in symbols if symbol not in _counted(left, right)]
    choices = _some(random, [(1, -1)] * len(signed)) if len(signed) > 1 else []
    for signs, size in product(choices, _LARGEST_SIZES):
        point = _drawn(symbols, left, right, random, positive=False)
        values = (_within(random, 0, size * sign) for sign in signs)
        yield point | dict(zip(signed, values, strict=True))
    yield from parts(left, right, conditions, seed) or ()


def _some(random: Random, axes: list[Any]) -> list[tuple[Any, ...]]:
    """The choices of one item of each axis; random ones if there are too many."""
    if prod(map(len, axes)) <= _MOST:
        return list(product(*axes))
    return [tuple(map(random.choice, axes)) for _ in range(_MOST)]


def _symbols(*expressions: Any) -> list[Any]:
    return sorted(sympy.Tuple(*expressions).free_symbols, key=str)


def _counted(left: Any, right: Any) -> set[Any]:
    counts = left.atoms(*COUNTS) | right.atoms(*COUNTS)
    return {symbol for count in counts for symbol in count.free_symbols}


@lru_cache(maxsize=64)
def parts(left: Any, right: Any, conditions: frozenset[Any], seed: str) -> list[Point] | None:
    """A point in each part, along a line for each symbol and where parts of several lines meet;
    None if the parts cannot be told."""
    turns = {turn for each in (left, right) for turn in _turns(each)}
    edges = {edge for each in (left, right) for edge in _edges(each)} | conditions
    rounded = (sympy.floor, sympy.ceiling)
    steps = {step.args[0] for each in (left, right) for step in each.atoms(*rounded)}
    if any(len(turn.free_symbols) > 1 for turn in turns) or len(steps) > 1:
        return None
    if not turns | edges | steps:
        return []
    symbols, counted = _symbols(left, right, *conditions), _counted(left, right)
    random = Random(seed)
    start = _drawn(symbols, left, right, random, positive=False)
    found: list[Point] = []
    lines: dict[Any, list[Fraction]] = {}
    for symbol in symbols:
        others = {other: sympy.Rational(start[other]) for other in symbols if other != symbol}
        switches = [each.subs(others) for each in turns | edges]
        for step in (each.subs(others) for each in steps if symbol in each.free_symbols):
            if not step.is_polynomial(symbol) or sympy.degree(step, symbol) != 1:
                return None
            switches.extend(step - end for end in (-1, 0, 1))
            edge = sympy.solve(step - random.randint(-9, 9), symbol)[0]
            if edge.is_Rational:  # where \lceil x \rceil is not \lfloor x \rfloor + 1
                found.append(start | {symbol: Fraction(int(edge.p), int(edge.q))})
            found.extend(start | {symbol: _within(random, far, 2 * far)} for far in _FAR)
        switches = [each for each in switches if symbol in each.free_symbols]
        values = _between_breaks(switches, symbol, random)
        if values is None:
            return None
        if symbol in counted:
            values = [Fraction(n) for v in values if 0 < (n := round(v)) <= _LARGEST_COUNTED]
        found.extend(start | {symbol: value} for value in values)
        lines |= {symbol: values} if values else {}
    if len(lines) > 1:
        choices = _some(random, list(lines.values()))
        found.extend(start | dict(zip(lines, values, strict=True)) for values in choices)
    return found


def _drawn(symbols: list[Any], left: Any, right: Any, random: Random, *, positive: bool) -> Point:
    """A random point. Among the positive ones, counts are the larger the later their symbol, so
    that binom(k, n) has its range."""
    counted = _counted(left, right)
    low, high = _WHOLE[random.random() < 0.75]
    point: Point = {
        symbol: Fraction(random.randint(low, high))
        if symbol in counted
        else random.choice((1, 2, 8)) * _within(random, -1, 1)  # nobody knows its denominator
        for symbol in symbols
    }
    if positive:
        counts = sorted(value for symbol, value in point.items() if symbol in counted)
        for symbol in symbols:
            point[symbol] = counts.pop(0) if symbol in counted else abs(point[symbol]) + 1
    return point


def _within(random: Random, low: Fraction | int, high: Fraction | int) -> Fraction:
    finest = _FINEST + random.getrandbits(60)
    return low + (high - low) * Fraction(random.randrange(1, finest), finest)


def _turns(expression: Any) -> Iterator[Any]:
    """Expressions at whose zeros this one becomes another."""
    for part in sympy.preorder_traversal(expression):
        if isinstance(part, sympy.Abs | sympy.sign):
            yield from sympy.factor_terms(part.args[0]).as_powers_dict()
        elif isinstance(part, sympy.Max | sympy.Min):
            yield from (a - b for a, b in combinations(part.args, 2))


def _edges(expression: Any) -> Iterator[Any]:
    """Expressions at whose zeros this one may cease to be real."""
    for part in sympy.preorder_traversal(expression):
        if isinstance(part, sympy.log) or (part.is_Pow and not part.exp.is_Integer):
            yield part.args[0]
        elif isinstance(part, sympy.asin | sympy.acos):
            yield from (part.args[0] - end for end in (-1, 1))


def _between_breaks(switches: list[Any], symbol: Any, random: Random) -> list[Fraction] | None:
    """A random value of a symbol below, between and above the zeros and poles of switches; None
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
    values = [_within(random, *_fractions(breaks[0][0] - 1, breaks[0][0]))]
    for (low, high), (below, above) in pairwise(breaks):
        steps = 1
        while high >= below:
            if low < high:
                low, high = product.refine_root(low, high, steps=steps)
            if below < above:
                below, above = product.refine_root(below, above, steps=steps)
            steps *= 2
        values.append(_within(random, *_fractions(high, below)))
    return [*values, _within(random, *_fractions(breaks[-1][1], breaks[-1][1] + 1))]


def _fractions(*ends: Any) -> tuple[Fraction, ...]:
    return tuple(Fraction(int(end.p), int(end.q)) for end in ends)


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
        sides = side.xreplace({radical: value}), relation
        pair = [sympy.fraction(sympy.together(each))[0] for each in sides]
        if not all(each.is_polynomial(value) for each in pair):
            return None
        side = sympy.expand(sympy.resultant(*pair, value))
    try:
        polynomial = sympy.Poly(side, symbol, domain="QQ")
    except (sympy.PolynomialError, sympy.CoercionFailed):  # a coefficient like pi
        return None
    return None if polynomial.is_zero else polynomial


def _radical(part: Any) -> bool:
    if isinstance(part, sympy.Abs):
        return True
    return part.is_Pow and part.exp.is_Rational and not part.exp.is_Integer

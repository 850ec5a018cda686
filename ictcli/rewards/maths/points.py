"""The points at which two expressions are compared: random ones, some for each choice of the signs
of the unknowns.

The seed is made of both texts: a verdict repeats, and an answer cannot be made for the points, as
another answer has others.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
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
"""Choices of signs that are tried; of more, so many random ones."""
_WHOLE = ((3, 40), (LARGEST_COUNT + 1, LARGEST_COUNT + 400))
"""Whole numbers that a symbol gets: small ones, and ones beyond every count that is read, as
binom(n, 60) is 0 up to 59."""

Point = dict[Any, Fraction]
"""The value of each symbol."""


def points(left: Any, right: Any, seed: str) -> Iterator[Point]:
    """Yield the points for two expressions; symbols that count something get whole numbers."""
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    random = Random(seed)
    for index in range(2 * _POINTS):
        # roots and logarithms are real at the later points
        yield _drawn(symbols, left, right, random, positive=index >= _POINTS)
    # `\sqrt{xy}` is `\sqrt{x}\sqrt{y}` but where both are negative; what only counts has one sign
    signed = [symbol for symbol in symbols if symbol not in _counted(left, right)]
    choices = _signs(random, len(signed)) if len(signed) > 1 else []
    for signs, size in product(choices, _LARGEST_SIZES):
        point = _drawn(symbols, left, right, random, positive=False)
        values = (_within(random, 0, size * sign) for sign in signs)
        yield point | dict(zip(signed, values, strict=True))


def _signs(random: Random, count: int) -> list[tuple[int, ...]]:
    """The choices of so many signs; random ones if there are too many."""
    if 2**count <= _MOST:
        return list(product((1, -1), repeat=count))
    return [tuple(random.choices((1, -1), k=count)) for _ in range(_MOST)]


def _counted(left: Any, right: Any) -> set[Any]:
    counts = left.atoms(*COUNTS) | right.atoms(*COUNTS)
    return {symbol for count in counts for symbol in count.free_symbols}


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

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

from ictcli.rewards.maths.values import Point

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


def points(left: Any, right: Any, seed: str) -> Iterator[Point]:
    """Yield the points for two expressions; symbols that count something get whole numbers, among
    positive values larger ones the later they are, so that binom(k, n) has its range."""
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    counts = left.atoms(*COUNTS) | right.atoms(*COUNTS)
    counted = {symbol for count in counts for symbol in count.free_symbols}
    signed = [symbol for symbol in symbols if symbol not in counted]
    random = Random(seed)
    for index in range(2 * _POINTS):
        whole = [Fraction(random.randint(3, 40)) for symbol in symbols if symbol in counted]
        # nobody knows the denominators
        values = [random.choice((1, 2, 8)) * _within(random, -1, 1) for _ in signed]
        if index >= _POINTS:  # where roots and logarithms are real
            whole, values = sorted(whole), [abs(value) + 1 for value in values]
        yield _point(symbols, counted, whole, values)
    # `\sqrt{xy}` is `\sqrt{x}\sqrt{y}` but where both are negative; what only counts has one sign
    choices = _signs(random, len(signed)) if len(signed) > 1 else []
    for signs, size in product(choices, _LARGEST_SIZES):
        whole = [Fraction(random.randint(3, 40)) for _ in counted]
        yield _point(symbols, counted, whole, [_within(random, 0, size * sign) for sign in signs])


def _point(
    symbols: list[Any], counted: set[Any], whole: list[Fraction], values: list[Fraction]
) -> Point:
    """Return the values by their symbols, each kind in order."""
    kinds = {True: iter(whole), False: iter(values)}
    return {symbol: next(kinds[symbol in counted]) for symbol in symbols}


def _signs(random: Random, count: int) -> list[tuple[int, ...]]:
    """Return the choices of so many signs; random ones if there are too many."""
    if 2**count <= _MOST:
        return list(product((1, -1), repeat=count))
    return [tuple(random.choices((1, -1), k=count)) for _ in range(_MOST)]


def _within(random: Random, low: int, high: int) -> Fraction:
    finest = _FINEST + random.getrandbits(60)
    return low + (high - low) * Fraction(random.randrange(1, finest), finest)

"""Choose the random points at which two expressions are compared, with all signs of the unknowns.

The seed depends on both texts: verdicts are reproducible, and nobody can fit an answer to the
points, as another answer has other points."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import sympy

from ictcli.rewards.maths.values import Point

ENOUGH = 3
"""Number of points at which both expressions must be defined and agree."""
COUNTS = (sympy.factorial, sympy.binomial)
"""Functions that count something; symbols in their arguments are whole numbers."""

_POINTS = 6
"""Number of points with values of any sign, and also of points with positive values."""
_FINEST = 2**64
_LARGEST_SIZES = (1, 4, 8)
"""Largest absolute values at the points for one combination of signs."""
_MOST = 32
"""Maximum number of sign combinations tried; if there are more, they are drawn at random."""


def points(left: Any, right: Any, seed: str) -> Iterator[Point]:
    """Yield the points for two expressions. Symbols in factorials and binomials get whole numbers;
    at positive points these rise in alphabetical order, as binom(n, k) needs k <= n."""
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    counts = left.atoms(*COUNTS) | right.atoms(*COUNTS)
    counted = {symbol for count in counts for symbol in count.free_symbols}
    signed = [symbol for symbol in symbols if symbol not in counted]
    random = Random(seed)
    for index in range(2 * _POINTS):
        whole = [Fraction(random.randint(3, 40)) for symbol in symbols if symbol in counted]
        # random denominators, which no answer can foresee
        values = [random.choice((1, 2, 8)) * _within(random, -1, 1) for _ in signed]
        if index >= _POINTS:  # where roots and logarithms are real
            whole, values = sorted(whole), [abs(value) + 1 for value in values]
        yield _point(symbols, counted, whole, values)
    # `\sqrt{xy}` is `\sqrt{x}\sqrt{y}` unless both are negative; `counted` symbols are positive
    choices = _signs(random, len(signed)) if len(signed) > 1 else []
    for signs, size in product(choices, _LARGEST_SIZES):
        whole = [Fraction(random.randint(3, 40)) for _ in counted]
        yield _point(symbols, counted, whole, [_within(random, 0, size * sign) for sign in signs])


def _point(
    symbols: list[Any], counted: set[Any], whole: list[Fraction], values: list[Fraction]
) -> Point:
    """Return a point: symbols in `counted` get the values `whole` in order, others `values`."""
    kinds = {True: iter(whole), False: iter(values)}
    return {symbol: next(kinds[symbol in counted]) for symbol in symbols}


def _signs(random: Random, count: int) -> list[tuple[int, ...]]:
    """Return all combinations of `count` signs, or _MOST random ones if there are more."""
    if 2**count <= _MOST:
        return list(product((1, -1), repeat=count))
    return [tuple(random.choices((1, -1), k=count)) for _ in range(_MOST)]


def _within(random: Random, low: int, high: int) -> Fraction:
    finest = _FINEST + random.getrandbits(60)
    return low + (high - low) * Fraction(random.randrange(1, finest), finest)

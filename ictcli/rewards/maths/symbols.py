"""Compare expressions by their values at many points.

This can be slow and use much memory, so it runs in a worker process."""

from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import sympy

from ictcli.rewards.maths import algebra
from ictcli.rewards.maths.nodes import UnreadableError
from ictcli.rewards.maths.points import COUNTS, ENOUGH, points
from ictcli.rewards.maths.values import FAILURES, Point, inexact, real, total, value_at

_MOST_SIGNS = 3
"""Maximum number of symbols for which both signs are tried."""
_PARTED = (
    *(sympy.Abs, sympy.sign, sympy.Max, sympy.Min, sympy.floor, sympy.ceiling),
    *(sympy.log, sympy.asin, sympy.acos),
)


def equal(left_text: str, right_text: str) -> bool:
    """Return whether two expressions in normalized LaTeX agree at every point where both have a
    value, and have real values at the same points. UnreadableError if one cannot be parsed."""
    left, right = _read(left_text), _read(right_text)
    if left == right:
        return True
    if not left.free_symbols | right.free_symbols:
        return bool(_alike(left, right, {}, imaginary=True))
    imaginary = left.has(sympy.I) or right.has(sympy.I)
    agreed = 0
    for point in points(left, right, _seed(left_text, right_text)):
        alike = _alike(left, right, point, imaginary=imaginary)
        if alike is False:
            return False
        agreed += alike is True
    if agreed == 0:  # functions without a value, f(x)
        return bool(sympy.expand(left - right) == 0)
    return agreed >= ENOUGH and (
        not any(map(_has_parts, (left, right))) or _reduce_to_the_same(left, right)
    )


def _alike(left: Any, right: Any, point: Point, *, imaginary: bool) -> bool | None:
    """Return whether two expressions have the same value at a point. The value must be real unless
    `imaginary`. None if a value cannot be computed, or neither is real."""
    values = _values(left, right, point)
    if values is None:
        return None
    reals = {True} if imaginary else set(map(real, values))
    if reals != {True}:  # a root or logarithm of a negative number
        return False if True in reals else None
    return total(values[0], -values[1]) == 0


def _values(left: Any, right: Any, point: Point) -> tuple[Any, Any] | None:
    try:
        return value_at(left, point), value_at(right, point)
    except FAILURES:
        return None


def _has_parts(expression: Any) -> bool:
    """Return whether an expression may have another form, or no real value, far from the compared
    points: `|x - 100|` is `100 - x` for all x near 0."""
    roots = (power for power in expression.atoms(sympy.Pow) if not power.exp.is_Integer)
    return any(part.free_symbols for part in (*roots, *expression.atoms(*_PARTED)))


def _reduce_to_the_same(left: Any, right: Any) -> bool:
    """Return whether algebra shows that left - right is 0 for both signs of each symbol."""
    difference = left - right
    symbols = sorted(difference.free_symbols, key=str)
    if len(symbols) > _MOST_SIGNS:
        return _vanishes(difference)
    unknowns = [sympy.Dummy(positive=True) for _ in symbols]
    return all(
        _vanishes(difference.xreplace(dict(zip(symbols, signed, strict=True))))
        for signed in product(*((unknown, -unknown) for unknown in unknowns))
    )


def _vanishes(difference: Any) -> bool:
    difference = sympy.logcombine(difference.rewrite(sympy.Abs))
    return bool(sympy.expand(difference) == 0 or sympy.simplify(difference) == 0)


def _seed(left: str, right: str) -> str:
    return "\0".join(sorted((left, right)))


def rounds(text: str, decimal: Fraction, places: int) -> bool:
    """Return whether a constant, rounded to `places`, is `decimal`. Raises UnreadableError."""
    try:
        value = value_at(_read(text), {})
    except FAILURES:
        return False
    half = Fraction(1, 2 * 10**places)
    return real(value) and total(abs(total(value, -inexact(decimal))), -inexact(half)) <= 0


def proportional(left_text: str, right_text: str) -> int:
    """Return the sign of c if left = c * right for a constant c, else 0. Raises UnreadableError."""
    left, right = _read(left_text), _read(right_text)
    if not left.free_symbols | right.free_symbols:
        return 0
    pairs: list[tuple[Any, Any]] = []
    for point in points(left, right, _seed(left_text, right_text)):
        values = _values(left, right, point)
        if values is None or not all(map(real, values)) or values == (0, 0):
            continue
        a, b = values
        c, d = pairs[0] if pairs else values
        if a == 0 or b == 0 or total(a * d, -b * c) != 0:
            return 0
        pairs.append(values)
    return (1 if (pairs[0][0] > 0) == (pairs[0][1] > 0) else -1) if len(pairs) >= ENOUGH else 0


@lru_cache(maxsize=4096)
def _read(text: str) -> Any:
    try:
        expression = algebra.read(text)
        expression = expression.doit() if expression.has(*COUNTS) else expression
    except FAILURES as error:
        raise UnreadableError(text) from error
    if expression.has(sympy.zoo, sympy.nan):
        raise UnreadableError(text)
    return expression

"""Equality of expressions by their values at many points.

`algebra` parses the expressions. This can be slow and use much memory, so it runs in a worker.
"""

from fractions import Fraction
from functools import lru_cache, partial
from itertools import product
from typing import Any

import sympy

from ictcli.rewards.maths import algebra
from ictcli.rewards.maths.nodes import UnreadableError
from ictcli.rewards.maths.points import COUNTS, ENOUGH, Point, points
from ictcli.rewards.maths.values import FAILURES, Evaluation, TooLargeError, computed, real

_MOST_SIGNS = 3
"""Symbols whose signs are told apart."""
_PARTED = (
    *(sympy.Abs, sympy.sign, sympy.Max, sympy.Min, sympy.floor, sympy.ceiling),
    *(sympy.log, sympy.asin, sympy.acos),
)


def equal(left_text: str, right_text: str) -> bool:
    """Return whether two tidy expressions agree at every point where both have a value, and have a
    real value at the same points. Raises UnreadableError."""
    left, right = _read(left_text), _read(right_text)
    if left == right:
        return True
    try:
        if not left.free_symbols | right.free_symbols:
            return computed(lambda values: _alike(values, left, right, {})) is True
        agreed = _agreed(left, right, _seed(left_text, right_text))
    except TooLargeError:
        return _reduce_to_the_same(left, right)
    if agreed is None:
        return False
    if agreed == 0:  # functions without a value, f(x)
        return bool(sympy.expand(left - right) == 0)
    return agreed >= ENOUGH and (
        not any(map(_has_parts, (left, right))) or _reduce_to_the_same(left, right)
    )


def _has_parts(expression: Any) -> bool:
    """Whether points may miss a part of the numbers in which an expression has another form, or is
    not real: `100 - x` is `|x - 100|` wherever x is near 0."""
    roots = (power for power in expression.atoms(sympy.Pow) if not power.exp.is_Integer)
    return any(part.free_symbols for part in (*roots, *expression.atoms(*_PARTED)))


def _reduce_to_the_same(left: Any, right: Any) -> bool:
    """Return whether a difference is 0 by algebra for either sign of each symbol."""
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


def _agreed(left: Any, right: Any, seed: str) -> int | None:
    """Return the number of points at which both have the same value; None where they differ at
    one."""
    imaginary = left.has(sympy.I) or right.has(sympy.I)

    def same(point: Point, values: Evaluation) -> bool | None:
        holds = {True} if imaginary else _are_real(values, left, right, point)
        if holds != {True}:  # a root or logarithm of a negative number
            return False if True in holds else None
        return _alike(values, left, right, point)

    agreed = 0
    for point in points(left, right, seed):
        found = computed(partial(same, point))
        if found is False:
            return None
        agreed += found is True
    return agreed


def _alike(values: Evaluation, left: Any, right: Any, point: Point) -> bool:
    return values.subtract(values.of(left, point), values.of(right, point)) == 0


def _are_real(values: Evaluation, left: Any, right: Any, point: Point) -> set[bool]:
    return {real(values.of(expression, point)) for expression in (left, right)}


def rounds(text: str, decimal: Fraction, places: int) -> bool:
    """Whether a constant, rounded to `places` digits after the point, is `decimal`. Raises
    UnreadableError."""
    expression = _read(text)

    def near(values: Evaluation) -> bool:
        beside = values.subtract(values.of(expression, {}), decimal)
        half = Fraction(1, 2 * 10**places)
        return real(beside) and values.subtract(abs(beside), half) <= 0

    return computed(near) is True


def proportional(left_text: str, right_text: str) -> int:
    """The sign of the constant c in left = c * right, or 0. Raises UnreadableError."""
    left, right = _read(left_text), _read(right_text)
    if not left.free_symbols | right.free_symbols:
        return 0

    def sign(first: Point, point: Point, values: Evaluation) -> int | None:
        """0 where one is 0 or their ratio not that at the first point; None where both are."""
        if False in _are_real(values, left, right, point):
            return None
        a, b = values.of(left, point), values.of(right, point)
        if a == 0 or b == 0:
            return None if a == b else 0
        across = values.multiply(a, values.of(right, first))
        if values.subtract(across, values.multiply(b, values.of(left, first))) != 0:
            return 0
        return 1 if (a > 0) == (b > 0) else -1

    first: Point = {}
    signs: list[int] = []
    for point in points(left, right, _seed(left_text, right_text)):
        if (found := computed(partial(sign, first or point, point))) == 0:
            return 0
        if found is not None:
            first = first or point
            signs.append(found)
    return signs[0] if len(signs) >= ENOUGH else 0


@lru_cache(maxsize=4096)
def _read(text: str) -> Any:
    try:
        expression = algebra.read(text)
        expression = expression.doit() if expression.has(*COUNTS) else expression
    except (*FAILURES, NotImplementedError) as error:
        raise UnreadableError(text) from error
    if expression.has(sympy.zoo, sympy.nan):
        raise UnreadableError(text)
    return expression

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

_Read = tuple[Any, frozenset[Any]]
"""An expression, and what must not be negative for it to be real."""
_MOST_SIGNS = 3
"""Symbols whose signs are told apart."""
_PARTED = (
    *(sympy.Abs, sympy.sign, sympy.Max, sympy.Min, sympy.floor, sympy.ceiling),
    *(sympy.log, sympy.asin, sympy.acos),
)


def equal(left_text: str, right_text: str) -> bool:
    """Whether two tidy expressions agree at every point where both have a value, and have a real
    value at the same points. Raises UnreadableError."""
    return _equal(_read(left_text), _read(right_text), _seed(left_text, right_text))


def _equal(one: _Read, other: _Read, seed: str) -> bool:
    (left, known), (right, known_right) = one, other
    if one == other:
        return True
    try:
        if not left.free_symbols | right.free_symbols | known | known_right:
            return computed(lambda values: _alike(values, left, right, {})) is True
        agreed = _agreed(one, other, seed)
    except TooLargeError:
        return known == known_right and _reduce_to_the_same(left, right, known)
    if agreed is None:
        return False
    if agreed == 0:  # functions without a value, f(x)
        return known == known_right and bool(sympy.expand(left - right) == 0)
    if agreed >= ENOUGH and (known != known_right or any(map(_has_parts, (left, right)))):
        hold = all(sympy.simplify(each).is_nonnegative for each in known ^ known_right)
        return hold and _reduce_to_the_same(left, right, known & known_right)
    return agreed >= ENOUGH


def _has_parts(expression: Any) -> bool:
    """Whether points may miss a part of the numbers in which an expression has another form, or is
    not real: `100 - x` is `|x - 100|` wherever x is near 0."""
    roots = (power for power in expression.atoms(sympy.Pow) if not power.exp.is_Integer)
    return any(part.free_symbols for part in (*roots, *expression.atoms(*_PARTED)))


def _reduce_to_the_same(left: Any, right: Any, known: frozenset[Any]) -> bool:
    """Whether a difference is 0 by algebra for either sign of each symbol, but where it is `known`
    that it is not negative."""
    symbols = sorted((left - right).free_symbols, key=str)
    if len(symbols) > _MOST_SIGNS:
        return _vanishes(left - right)
    signs = [(1,) if symbol in known else (1, -1) for symbol in symbols]
    return all(
        _vanishes(
            (left - right).xreplace(
                {
                    symbol: sign * sympy.Dummy(positive=True)
                    for symbol, sign in zip(symbols, case, strict=True)
                }
            )
        )
        for case in product(*signs)
    )


def _vanishes(difference: Any) -> bool:
    difference = difference.rewrite(sympy.Abs)
    if difference.has(sympy.log):  # each takes what is not negative: the conditions of both agree
        difference = sympy.logcombine(difference, force=True)
    return bool(sympy.expand(difference) == 0 or sympy.simplify(difference) == 0)


def _seed(left: str, right: str) -> str:
    return "\0".join(sorted((left, right)))


def _agreed(one: _Read, other: _Read, seed: str) -> int | None:
    """The number of points at which both have the same value; None where they differ at one."""
    (left, known), (right, known_right) = one, other
    imaginary = left.has(sympy.I) or right.has(sympy.I)

    def same(point: Point, values: Evaluation) -> bool | None:
        holds = [True] if imaginary else _are_real(values, one, other, point)
        if not all(holds):  # a root or logarithm of a negative number
            return False if any(holds) else None
        return _alike(values, left, right, point)

    agreed = 0
    for point in points(left, right, known ^ known_right, seed):
        found = computed(partial(same, point))
        if found is False:
            return None
        agreed += found is True
    return agreed


def _alike(values: Evaluation, left: Any, right: Any, point: Point) -> bool:
    return values.subtract(values.of(left, point), values.of(right, point)) == 0


def _are_real(values: Evaluation, one: _Read, other: _Read, point: Point) -> list[bool]:
    """Whether each is real at a point, and none of its own conditions negative or imaginary."""
    return [
        real(values.of(expression, point))
        and all(real(value := values.of(each, point)) and value >= 0 for each in known - others)
        for (expression, known), (_, others) in ((one, other), (other, one))
    ]


def rounds(text: str, decimal: Fraction, places: int) -> bool:
    """Whether a constant, rounded to `places` digits after the point, is `decimal`. Raises
    UnreadableError."""
    expression, _ = _read(text)

    def near(values: Evaluation) -> bool:
        beside = values.subtract(values.of(expression, {}), decimal)
        half = Fraction(1, 2 * 10**places)
        return real(beside) and values.subtract(abs(beside), half) <= 0

    return computed(near) is True


def proportional(left_text: str, right_text: str) -> int:
    """The sign of the constant c in left = c * right, or 0. Raises UnreadableError."""
    (left, known), (right, known_right) = one, other = _read(left_text), _read(right_text)
    if not left.free_symbols | right.free_symbols:
        return 0

    def sign(first: Point, point: Point, values: Evaluation) -> int | None:
        """0 where one is 0 or their ratio not that at the first point; None where both are."""
        if not all(_are_real(values, one, other, point)):
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
    for point in points(left, right, known ^ known_right, _seed(left_text, right_text)):
        if (found := computed(partial(sign, first or point, point))) == 0:
            return 0
        if found is not None:
            first = first or point
            signs.append(found)
    return signs[0] if len(signs) >= ENOUGH else 0


@lru_cache(maxsize=4096)
def _read(text: str) -> _Read:
    try:
        expression, conditions = algebra.read(text)
        expression = expression.doit() if expression.has(*COUNTS) else expression
    except (*FAILURES, NotImplementedError) as error:
        raise UnreadableError(text) from error
    if expression.has(sympy.zoo, sympy.nan):
        raise UnreadableError(text)
    return expression, conditions

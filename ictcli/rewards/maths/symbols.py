"""Equality of expressions by their values at many points.

`algebra` parses the expressions. This can be slow and use much memory, so it runs in a worker.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any, cast

import sympy as _sympy  # pyright: ignore[reportMissingTypeStubs]

from ictcli.rewards.maths import algebra
from ictcli.rewards.maths.algebra import UnknownError, UnreadableError
from ictcli.rewards.maths.latex import flat, letters
from ictcli.rewards.maths.points import COUNTS, ENOUGH, Point, parts, points

sympy = cast(Any, _sympy)

PASSES = ((100, ENOUGH), (600, None))
"""Digits of values, and at how many points (None: at all). The first pass finds most differences
at little cost, the second decides."""
_FAILURES = (ArithmeticError, AttributeError, TypeError, ValueError, NotImplementedError)
"""What sympy raises for an expression that it cannot handle."""
_GROUP = r"(?:\{(?:[^{}]|\{[^{}]*\})*\}|\w|\\infty)"
_INTEGRAL = re.compile(
    rf"\\int\s*_\s*({_GROUP})\s*\^\s*({_GROUP})((?:(?!\\int).)*?)\s*d\s*([a-df-zA-Z])"
)
_SUM = re.compile(r"([^_]*\\(?:sum|prod)_\{)([a-zA-Z])=.*")
_Conditions = tuple[frozenset[Any], frozenset[Any]]
"""What must not be negative on the left and on the right."""
_FRESH = (*"uvwtszabckmnpqr", "\\xi ")


def equal(left_text: str, right_text: str) -> bool:
    """Whether two tidy expressions agree at every point where both have a value, and have a real
    value at the same points. Raises UnreadableError."""
    try:
        (left, known), (right, known_right) = _read(left_text), _read(right_text)
    except UnknownError:
        left_text, right_text = with_same_bound(left_text, right_text)
        if flat(left_text) == flat(right_text) or _integrals(left_text, right_text):
            return True
        raise
    conditions = known, known_right
    if left == right and known == known_right:
        return True
    if not left.free_symbols | right.free_symbols | known | known_right:
        return _constants(left, right)
    agreed = 0
    for digits, most in PASSES:
        agreed = _agreed(left, right, conditions, digits, most)
        if agreed is None:
            return False
    if agreed == 0:  # functions without a value, f(x)
        return known == known_right and bool(sympy.expand(left - right) == 0)
    if agreed >= ENOUGH and parts(left, right, known ^ known_right) is None:
        return _hold_everywhere(known ^ known_right) and _reduce_to_the_same(left, right)
    return agreed >= ENOUGH


def _hold_everywhere(conditions: frozenset[Any]) -> bool:
    return all(sympy.simplify(condition).is_nonnegative for condition in conditions)


def _reduce_to_the_same(left: Any, right: Any) -> bool:
    """Whether the difference of two expressions is 0 by the rules of algebra alone."""
    difference = (left - right).rewrite(sympy.Abs)
    if difference.has(sympy.log):  # each takes what is not negative: the conditions of both agree
        difference = sympy.logcombine(difference, force=True)
    return bool(sympy.expand(difference) == 0 or sympy.simplify(difference) == 0)


def _agreed(
    left: Any, right: Any, conditions: _Conditions, digits: int, most: int | None
) -> int | None:
    """The number of points at which both have the same value; None where they differ at one."""
    agreed, imaginary = 0, left.has(sympy.I) or right.has(sympy.I)
    if imaginary:
        conditions = frozenset[Any](), frozenset[Any]()
    for a, b in _samples(left, right, conditions, digits, most):
        if not imaginary and not _real(a) and not _real(b):
            continue  # a root or logarithm of a negative number
        if _real(a) != _real(b) or not close(a, b, digits):
            return None
        agreed += 1
    return agreed


def _constants(left: Any, right: Any) -> bool:
    """Whether two numbers differ by 0, or by less than 1e-1400."""
    if left.is_infinite or right.is_infinite:
        return bool(left == right)
    difference = left - right
    if difference.is_Rational:
        return bool(difference == 0)
    value = sympy.N(difference, 15, maxn=5000)
    if not value.is_number or value.has(sympy.nan, sympy.zoo, sympy.oo):
        return False
    size = max(abs(part) for part in value.as_real_imag())
    return bool(size < sympy.Float("1e-1400"))


def rounds(text: str, decimal: Fraction, places: int) -> bool:
    """Whether a constant, rounded to `places` digits after the point, is `decimal`. Raises
    UnreadableError."""
    expression, _ = _read(text)
    value = None if expression.free_symbols else value_at(expression, {}, PASSES[0][0])
    if value is None or value.is_infinite or not _real(value):
        return False
    difference = value - sympy.Rational(decimal.numerator, decimal.denominator)
    return bool(abs(difference) <= sympy.Rational(1, 2 * 10**places))


def proportional(left_text: str, right_text: str) -> int:
    """The sign of the constant c in left = c * right, or 0. Raises UnreadableError."""
    (left, known), (right, known_right) = _read(left_text), _read(right_text)
    if not left.free_symbols | right.free_symbols:
        return 0
    ratios: list[Any] | None = []
    for digits, most in PASSES:
        ratios = _ratios(left, right, (known, known_right), digits, most)
        if ratios is None:
            return 0
    return 0 if len(ratios) < ENOUGH else (1 if ratios[0] > 0 else -1)


def _ratios(
    left: Any, right: Any, conditions: _Conditions, digits: int, most: int | None
) -> list[Any] | None:
    """left / right at the points where neither is 0; None where it is not the same at all."""
    ratios: list[Any] = []
    for a, b in _samples(left, right, conditions, digits, most):
        if not _real(a) or not _real(b) or a == b == 0:
            continue
        if a == 0 or b == 0 or (ratios and not close(a / b, ratios[0], digits)):
            return None
        ratios.append(a / b)
    return ratios


@lru_cache(maxsize=4096)
def _read(text: str) -> tuple[Any, frozenset[Any]]:
    try:
        expression, conditions = algebra.read(text)
        expression = expression.doit() if expression.has(*COUNTS) else expression
    except UnreadableError:
        raise
    except _FAILURES as error:
        raise UnreadableError(text) from error
    if expression.has(sympy.zoo, sympy.nan):
        raise UnreadableError(text)
    if expression.has(sympy.oo):  # a sum without an end that has no closed form, or diverges
        raise UnknownError(text)
    return expression, conditions


def _samples(
    left: Any, right: Any, conditions: _Conditions, digits: int, most: int | None
) -> Iterator[tuple[Any, Any]]:
    """Values of both at the first `most` points, or all, where both are defined; i for one whose
    conditions fail."""
    known, known_right = conditions
    for point in islice(points(left, right, known ^ known_right), most):
        a, b = value_at(left, point, digits), value_at(right, point, digits)
        if a is not None and b is not None:
            yield (
                a if _hold(known - known_right, point, digits) else sympy.I,
                b if _hold(known_right - known, point, digits) else sympy.I,
            )


def _hold(conditions: frozenset[Any], point: Point, digits: int) -> bool:
    """Whether no condition is negative, imaginary or undefined at a point."""
    values = [value_at(condition, point, digits) for condition in conditions]
    return all(value is not None and _real(value) and value >= 0 for value in values)


def value_at(expression: Any, point: Point, digits: int) -> Any:
    """The complex or infinite value at a point, exact or to so many digits; None if undefined."""
    try:
        value = expression.xreplace(point)
        if not value.is_Rational:
            value = sympy.N(value.doit(), digits, maxn=4 * digits)
    except _FAILURES:
        return None
    if value in (sympy.oo, -sympy.oo):
        return value
    return value if value.is_number and value.is_finite else None


def close(left: Any, right: Any, digits: int) -> bool:
    """Whether two values of so many digits agree but for the last few; rationals exactly."""
    if left.is_infinite or right.is_infinite or (left.is_Rational and right.is_Rational):
        return bool(left == right)
    return bool(
        abs(left - right) <= sympy.Float(f"1e-{digits * 14 // 15}") * max(abs(left), abs(right))
    )


def _real(value: Any) -> bool:
    if value.is_Rational or value.is_Float:
        return True
    return bool(abs(value.as_real_imag()[1]) <= 1e-80 * max(1, abs(value)))


def _integrals(left: str, right: str) -> bool:
    """Whether two definite integrals have equal ends and integrands, whatever their letters."""
    first, second = _INTEGRAL.fullmatch(left), _INTEGRAL.fullmatch(right)
    if not first or not second:
        return False
    fresh = _fresh(left, right)
    return all(
        flat(a) == flat(b) or ("\\infty" not in a + b and equal(a, b))
        for a, b in zip(_parts(first, fresh), _parts(second, fresh), strict=True)
    )


def _parts(integral: re.Match[str], letter: str) -> list[str]:
    """Both ends and the integrand, with another letter for its variable."""
    ends = [end[1:-1].strip() if end[0] == "{" else end for end in integral.group(1, 2)]
    return [*ends, _renamed(integral[3], integral[4], letter)]


def _renamed(text: str, letter: str, other: str) -> str:
    return re.sub(
        r"\\[a-zA-Z]+|[a-zA-Z]", lambda sign: other if sign[0] == letter else sign[0], text
    )


def _fresh(left: str, right: str) -> str:
    return next(letter for letter in _FRESH if letter not in letters(left) | letters(right))


def with_same_bound(left: str, right: str) -> tuple[str, str]:
    """Two texts with one letter for the variable of their sum."""
    fresh = _fresh(left, right)
    return _rebound(left, fresh), _rebound(right, fresh)


def _rebound(text: str, letter: str) -> str:
    summed = _SUM.fullmatch(text)
    return summed[1] + _renamed(text[len(summed[1]) :], summed[2], letter) if summed else text

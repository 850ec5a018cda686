"""Values of sympy expressions, to so many digits that no difference hides behind the last one.

Whole numbers and fractions are exact. Other values are computed to 200 digits and three times their
size: the digits that all that was computed has before the point, or zeros after it. So `5+\\sqrt2`
takes 200 digits, `5+e^{-5000}` some thousands.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeVar

import mpmath
import sympy

from ictcli.rewards.maths.algebra import FUNCTIONS
from ictcli.rewards.maths.nodes import UnreadableError

_MP = mpmath.mp.clone()

FIRST, ENOUGH, MOST = 60, 200, 40_000
"""Digits of the first attempt, that tells most values apart; the least by which two are the same;
the most that are computed."""
_SPARE = 20
"""Digits beyond those of the size that may be wrong."""
_BITS = math.log2(10)

Found = TypeVar("Found")
Point = Mapping[Any, Fraction]
"""The value of each symbol."""
Value = Any
"""A Fraction, or a real or complex number of mpmath."""

FAILURES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What sympy and mpmath raise for what has no value, or what they cannot compute."""
_FUNCTIONS = {sympy.log, *FUNCTIONS.values()}
"""What is no operation of these mpmath has under the same name."""
_GROWING = (sympy.exp, sympy.sinh, sympy.cosh, sympy.tanh)


class TooLargeError(UnreadableError):
    """A value takes too many digits."""


def computed(compute: Callable[["Evaluation"], Found]) -> Found | None:
    """What `compute` finds with digits enough; None where it finds no value. TooLargeError if that
    takes more than MOST digits."""
    digits = FIRST
    while True:
        evaluation = Evaluation(digits)
        try:
            found = compute(evaluation)
        except (*FAILURES, NotImplementedError) as error:
            if isinstance(error, TooLargeError):
                raise
            found = None
        needed = ENOUGH + math.ceil(3 * evaluation.size)
        if evaluation.exact or digits >= needed or evaluation.certain():
            return found
        _check(needed)
        digits = needed


class Evaluation:
    """Values of expressions, computed to a number of digits. One at a time."""

    def __init__(self, digits: int) -> None:
        _MP.dps = digits
        self.digits = digits
        self.size = 0.0
        self.exact = True
        """Whether all values are fractions."""
        self.vanished = False
        """Whether a sum is taken for 0 that is 0 in all reliable digits."""
        self.known: dict[int, tuple[Point, dict[Any, Value]]] = {}

    def reliable(self) -> float:
        """Leading digits of a value that are right."""
        return self.digits - self.size - _SPARE

    def certain(self) -> bool:
        """Whether more digits would change nothing."""
        return not self.vanished and self.reliable() > _SPARE

    def of(self, expression: Any, point: Point) -> Value:
        """The value of an expression at a point, which must not change afterwards. Raises one of
        FAILURES where it has none."""
        _, known = self.known.setdefault(id(point), (point, {}))

        def value(node: Any) -> Value:
            if node not in known:
                known[node] = self._checked(self._value(node, value, point))
            return known[node]

        return value(expression)

    def add(self, *values: Value) -> Value:
        """The sum: 0 if all its reliable digits are."""
        if all(isinstance(value, Fraction) for value in values):
            return sum(values, Fraction(0))
        terms = list(map(self._inexact, values))
        total = self._simple(sum(terms[1:], terms[0]))
        if total == 0 or max(map(_digits, terms)) - _digits(total) > self.reliable():
            self.vanished = True
            return Fraction(0)
        return total

    def multiply(self, *values: Value) -> Value:
        if any(value == 0 for value in values):
            return Fraction(0)
        if all(isinstance(value, Fraction) for value in values):
            return math.prod(values, start=Fraction(1))
        return self._simple(math.prod(map(self._inexact, values)))

    def subtract(self, left: Value, right: Value) -> Value:
        return self.add(left, self.multiply(Fraction(-1), right))

    def _value(self, node: Any, value: Callable[[Any], Value], point: Point) -> Value:
        if node.is_Rational:
            self.size += min(node.p.bit_length(), node.q.bit_length()) / _BITS  # 1+10^{-700}
            return Fraction(node.p, node.q)
        if node.is_Symbol:
            return point[node]
        if node in (sympy.pi, sympy.E, sympy.I):
            return self._inexact({sympy.pi: +_MP.pi, sympy.E: +_MP.e, sympy.I: _MP.mpc(0, 1)}[node])
        if node.func in _OPERATIONS:
            return _OPERATIONS[node.func](self, *map(value, node.args))
        if node.func in _FUNCTIONS:
            return self._function(node.func, value(node.args[0]))
        return self._other(node, point)

    def _checked(self, value: Value) -> Value:
        if not isinstance(value, Fraction) and not _MP.isfinite(value):
            raise ValueError("infinite")
        self._grow(abs(_digits(value)))
        return value

    def _grow(self, digits: float) -> None:
        self.size += digits
        if not self.exact:
            _check(self.size)

    def _inexact(self, value: Value) -> Value:
        self.exact = False
        if isinstance(value, Fraction):
            return _MP.mpf(value.numerator) / value.denominator
        return value

    def _simple(self, value: Value) -> Value:
        """A value whose imaginary part is 0 in all reliable digits as a real number."""
        if real(value) or _digits(value) - _digits(value.imag) <= self.reliable():
            return value
        self.vanished |= value.imag != 0
        return value.real

    def power(self, base: Value, exponent: Value) -> Value:
        whole = isinstance(exponent, Fraction) and exponent.denominator == 1
        if base == 0 and real(exponent) and exponent > 0:
            return Fraction(0)
        if base in (0, 1):
            return Fraction(base) ** int(exponent)
        if _digits(exponent) > 10:
            raise TooLargeError("too large an exponent")
        if isinstance(base, Fraction) and whole:
            _check(max(_digits(base.numerator), _digits(base.denominator)) * int(exponent) / 10)
            return base ** int(exponent)
        base = self._inexact(base)
        _check(_digits(base) * float(abs(exponent)))
        raised = base ** int(exponent) if whole else _MP.power(base, self._inexact(exponent))
        return self._simple(raised)

    def _function(self, function: Any, inside: Value) -> Value:
        inside = self._inexact(inside)
        growing = inside.real if function in _GROWING else inside.imag
        _check(growing)
        self._grow(0 if function is sympy.exp else abs(float(growing)) / 2)  # tanh near 1
        return self._simple(getattr(_MP, function.__name__)(inside))

    def absolute(self, value: Value) -> Value:
        return abs(value)

    def sign(self, value: Value) -> Value:
        return Fraction((_ordered(value) > 0) - (value < 0))

    def _other(self, node: Any, point: Point) -> Value:
        rational = {symbol: sympy.Rational(point[symbol]) for symbol in node.free_symbols}
        value = node.xreplace(rational).doit()
        if value.is_Rational:
            return Fraction(value.p, value.q)
        value = sympy.N(value, self.digits, maxn=4 * self.digits)
        if not value.is_number or not value.is_finite:
            raise ValueError("no value")
        return self._simple(self._inexact(_MP.convert(value._to_mpmath(_MP.prec))))


_OPERATIONS: dict[Any, Callable[..., Value]] = {
    sympy.Add: Evaluation.add, sympy.Mul: Evaluation.multiply, sympy.Pow: Evaluation.power,
    sympy.Abs: Evaluation.absolute, sympy.sign: Evaluation.sign,
}  # fmt: skip


def _check(digits: Value) -> None:
    if abs(digits) > MOST:
        raise TooLargeError("too large or too small a number")


def real(value: Value) -> bool:
    return not isinstance(value, _MP.mpc)


def _ordered(value: Value) -> Value:
    if not real(value):
        raise ValueError("no order")
    return value


def _digits(value: Value) -> float:
    """The decimal logarithm of the absolute value, about; 0 for 0."""
    if value == 0:
        return 0
    if isinstance(value, Fraction | int):
        return (value.numerator.bit_length() - value.denominator.bit_length()) / _BITS
    return int(_MP.mag(value)) / _BITS

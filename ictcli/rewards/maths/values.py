"""Compute values of sympy expressions at points, to 200 digits."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import mpmath
import sympy

from ictcli.rewards.maths.algebra import FUNCTIONS

_MP = mpmath.mp.clone()
_MP.dps = 200
_NOTHING = _MP.mpf(10) ** -150
"""A sum smaller than this fraction of its terms counts as 0."""
_LARGEST_EXPONENT = 10**10
_CONSTANTS = {sympy.pi: _MP.pi, sympy.E: _MP.e, sympy.I: _MP.mpc(0, 1)}
_NAMES = {
    **{function: function.__name__ for function in (sympy.log, *FUNCTIONS.values())},
    sympy.Abs: "fabs",
    sympy.ceiling: "ceil",
    sympy.sign: "sign",
}
"""mpmath's names of sympy's functions."""

Point = Mapping[Any, Fraction]
"""The value of each symbol."""
FAILURES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
)
"""Exceptions of sympy and mpmath for expressions that have no value or cannot be computed."""


def value_at(expression: Any, point: Point) -> Any:
    """Return the value, an mpmath number, of an expression at a point. Raises one of FAILURES."""
    values: dict[Any, Any] = {}

    def value(node: Any) -> Any:
        if node not in values:
            values[node] = _value(node, value, point)
            if not _MP.isfinite(values[node]):
                raise ValueError("infinite")
        return values[node]

    return value(expression)


def inexact(number: Fraction) -> Any:
    """Return a fraction as an mpmath number."""
    return _MP.mpf(number.numerator) / number.denominator


def total(*terms: Any) -> Any:
    """Return the sum of the terms; 0 if it is negligible compared with them."""
    value = _MP.fsum(terms)
    return _MP.zero if abs(value) <= _NOTHING * max(abs(term) for term in terms) else _simple(value)


def real(value: Any) -> bool:
    """Return whether a value is a real number."""
    return not isinstance(value, _MP.mpc)


def _value(node: Any, value: Callable[[Any], Any], point: Point) -> Any:
    if node.is_Rational:
        return inexact(Fraction(node.p, node.q))
    if node.is_Symbol:
        return inexact(point[node])
    if node in _CONSTANTS:
        return +_CONSTANTS[node]
    if node.is_Add:
        return total(*map(value, node.args))
    if node.is_Mul:
        return _simple(_MP.fprod(map(value, node.args)))
    if node.is_Pow:
        return _power(*map(value, node.args))
    if node.func in _NAMES:
        return _simple(getattr(_MP, _NAMES[node.func])(value(node.args[0])))
    exact = node.xreplace({name: sympy.Rational(point[name]) for name in node.free_symbols}).doit()
    number = sympy.N(exact, _MP.dps)
    if not number.is_number or not number.is_finite:
        raise ValueError("no value")
    return _simple(_MP.convert(number._to_mpmath(_MP.prec)))


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > _LARGEST_EXPONENT:
        raise ValueError("too large an exponent")
    whole = real(exponent) and exponent == int(exponent)
    return _simple(base ** int(exponent) if whole else _MP.power(base, exponent))


def _simple(value: Any) -> Any:
    """Return a value whose imaginary part is negligible as a real number."""
    return value if real(value) or abs(value.imag) > _NOTHING * abs(value) else value.real

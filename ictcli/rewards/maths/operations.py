"""The operations of `algebra` on sympy expressions, which refuse what is too large or undefined."""

from collections.abc import Callable
from functools import reduce
from typing import Any, cast

import sympy as _sympy  # pyright: ignore[reportMissingTypeStubs]

sympy = cast(Any, _sympy)

LARGEST_COUNT = 2000
"""Largest argument of a factorial or binomial, and longest finite sum."""
LARGEST_POWER = 20_000
"""Most digits of a power of a number, and largest exponent of anything else."""


class UnreadableError(ValueError):
    """The text is not an expression with exactly one reading."""


class UnknownError(UnreadableError):
    """The text holds a command that this parser does not know."""


def quotient(above: Any, below: Any) -> Any:
    """above / below. Raises UnreadableError for 0."""
    if below == 0:
        raise UnreadableError("divided by zero")
    return above / below


def countable(value: Any) -> Any:
    """The value. Raises UnreadableError for a number above LARGEST_COUNT."""
    if value.is_number and abs(value) > LARGEST_COUNT:
        raise UnreadableError("too large a factorial, binomial or sum")
    return value


def root(inside: Any, index: Any) -> Any:
    """The index-th root; odd roots of negative numbers are real."""
    if index.is_Integer and index % 2 == 1:
        return sympy.sign(inside) * sympy.root(sympy.Abs(inside), index)
    return sympy.root(inside, index)


def power(base: Any, exponent: Any) -> Any:
    """base ** exponent. Raises UnreadableError if the result would be very large, and for a power
    of 0 with an unknown exponent, which is 0, 1 or undefined."""
    if exponent.free_symbols and base == 0:
        raise UnreadableError("a power of 0 with an unknown exponent")
    if exponent.is_Rational and exponent.q % 2 == 1 and exponent.q > 1 and base.is_real:
        return power(root(base, sympy.Integer(exponent.q)), sympy.Integer(exponent.p))
    if exponent.is_number and exponent.is_real:
        digits = abs(exponent) * (1 if base.free_symbols else sympy.log(abs(base) + 2, 10))
        if sympy.N(digits, 5) > LARGEST_POWER:
            raise UnreadableError("too large a power")
    result = base**exponent
    if result.is_Pow and result.exp.is_number and abs(result.exp) > LARGEST_POWER:
        raise UnreadableError("too large a power")
    return result


def without_positive_factors(value: Any) -> Any:
    """What has the sign of a value: `4 - 4cos x` as `1 - cos x`."""
    factors = sympy.Mul.make_args(sympy.factor_terms(value))
    return sympy.Mul(*(factor for factor in factors if not factor.is_positive))


def divisors(name: str) -> Callable[..., Any]:
    """gcd or lcm of whole numbers; of anything else a symbol, as sympy takes gcd(m, n) for 1."""

    def applied(*values: Any) -> Any:
        if all(value.is_Integer for value in values):
            return reduce(getattr(sympy, name), values)
        return sympy.Function(name)(*sorted(values, key=str))

    return applied


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan, "cot": sympy.cot, "sec": sympy.sec,
    "csc": sympy.csc, "arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan,
    "arccot": sympy.acot, "sinh": sympy.sinh, "cosh": sympy.cosh, "tanh": sympy.tanh,
    "ln": sympy.log, "exp": sympy.exp, "log": lambda x: sympy.log(x, 10),
    "lg": lambda x: sympy.log(x, 10),
}  # fmt: skip
SEVERAL = {"max": sympy.Max, "min": sympy.Min, "gcd": divisors("gcd"), "lcm": divisors("lcm")}

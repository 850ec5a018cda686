"""The functions of expressions as sympy's, refused where they would take long to write down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import sympy as _sympy  # pyright: ignore[reportMissingTypeStubs]

sympy = cast(Any, _sympy)

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan, "cot": sympy.cot, "sec": sympy.sec,
    "csc": sympy.csc, "arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan,
    "arccot": sympy.acot, "sinh": sympy.sinh, "cosh": sympy.cosh, "tanh": sympy.tanh,
    "ln": sympy.log, "exp": sympy.exp, "log": lambda x: sympy.log(x, 10),
    "lg": lambda x: sympy.log(x, 10),
}  # fmt: skip
INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot"}
SEVERAL = {"max": sympy.Max, "min": sympy.Min, "gcd": sympy.gcd, "lcm": sympy.lcm}

LARGEST_COUNT = 2000
"""Of what a factorial, a binomial or a finite sum counts."""
LARGEST_POWER = 20_000
"""Digits of a number, and exponent of anything else."""


class UnreadableError(ValueError):
    """Not an expression that can be read whole and in one way."""


class UnknownError(UnreadableError):
    """A command that is none of those read here."""


def root(inside: Any, index: Any) -> Any:
    """A root; an odd one is real, also of what is negative."""
    if index.is_Integer and index % 2 == 1:
        return sympy.sign(inside) * sympy.root(sympy.Abs(inside), index)
    return sympy.root(inside, index)


def power(base: Any, exponent: Any) -> Any:
    """base ** exponent, refused where it would take long to write down."""
    if exponent.is_Rational and exponent.q % 2 == 1 and exponent.q > 1 and base.is_real:
        return power(root(base, sympy.Integer(exponent.q)), sympy.Integer(exponent.p))
    if exponent.is_number and exponent.is_real:
        digits = abs(exponent) * (1 if base.free_symbols else sympy.log(abs(base) + 2, 10))
        if sympy.N(digits, 5) > LARGEST_POWER:
            raise UnreadableError("too large a power")
    found = base**exponent
    if found.is_Pow and found.exp.is_number and abs(found.exp) > LARGEST_POWER:
        raise UnreadableError("too large a power")
    return found

"""Compare the length of an expression with that of its normal forms.

An expression longer than all of them has terms that cancel or can be added."""

import contextlib
from typing import Any

import sympy

from ictcli.rewards.maths import algebra
from ictcli.rewards.maths.nodes import UnreadableError
from ictcli.rewards.maths.terms import length
from ictcli.rewards.maths.trees import Tree
from ictcli.rewards.maths.values import FAILURES

_HIGHEST, _MOST = 40, 200
"""Largest exponent, and number of operations, of an expression whose normal forms are computed."""


def is_shortest(tree: Tree, allowed: int) -> bool:
    """Return whether an expression with unknowns is reduced, and no longer than `allowed` or its
    longest normal form (expanded, factored, partial fractions). True if it is too large to tell."""
    try:
        value = algebra.value_of(tree)
        if value.count_ops() > _MOST or any(
            not power.exp.is_number or abs(power.exp) > _HIGHEST
            for power in value.atoms(sympy.Pow)
            if power.exp.is_comparable
        ):
            return True
        if not all(map(_is_reduced, sympy.Add.make_args(value))):
            return False
        if length(tree) <= allowed:
            return True
        value = sympy.trigsimp(value) if value.has(sympy.sin, sympy.cos, sympy.tan) else value
        value = value.replace(sympy.tan, _quotient)
        value = sympy.expand_trig(value)
        forms = [sympy.expand(value), sympy.factor(value), sympy.cancel(value)]
        with contextlib.suppress(NotImplementedError, sympy.PolynomialError):
            forms.append(sympy.apart(value))
        return length(tree) <= max(map(_size, forms))
    except (UnreadableError, sympy.PolynomialError, *FAILURES):
        return True


def _quotient(angle: Any) -> Any:
    """Return the tangent of an angle as a sine over a cosine."""
    return sympy.sin(angle) / sympy.cos(angle)


def _is_reduced(term: Any) -> bool:
    """Return whether a fraction is reduced: its denominator has the lowest possible degree."""
    written, lowest = (sympy.fraction(part)[1] for part in (term, sympy.cancel(term)))
    degrees = (sympy.Poly(part).total_degree() for part in (written, lowest) if part.free_symbols)
    return next(degrees, 0) == next(degrees, 0)


def _size(value: Any) -> int:
    """Return the length of a sympy expression, counted as `terms.length` counts a tree's."""
    if value.is_Mul:
        return sum(_size(factor) for factor in value.args if not factor.is_number) or 1
    if value.is_Pow:
        return _size(value.base) + (_size(value.exp) if abs(value.exp) != 1 else 0)
    return (not value.is_Add and bool(value.args)) + sum(map(_size, value.args)) or 1

"""How long the normal forms of an expression are.

What is longer than all of these hides something that cancels or can be added, however it is hidden.
"""

import contextlib
from typing import Any

import sympy

from ictcli.rewards.maths import algebra
from ictcli.rewards.maths.nodes import UnreadableError
from ictcli.rewards.maths.terms import length
from ictcli.rewards.maths.trees import Tree
from ictcli.rewards.maths.values import FAILURES

_HIGHEST = 40
"""The highest power, and _MOST the most operations, of an expression that is brought into forms."""
_MOST = 200


def is_shortest(tree: Tree, allowed: int) -> bool:
    """Return whether an expression with unknowns is no longer than allowed, or than its longest
    normal form (expanded, factored, partial fractions), and its fraction is reduced. True for what
    is too large."""
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
    """Return whether the divisor of a fraction has the lowest degree that it can have."""
    written, lowest = (sympy.fraction(each)[1] for each in (term, sympy.cancel(term)))
    degrees = (sympy.Poly(each).total_degree() for each in (written, lowest) if each.free_symbols)
    return next(degrees, 0) == next(degrees, 0)


def _size(value: Any) -> int:
    """Return the length of a sympy expression, counted as `length` counts that of a tree."""
    if value.is_Mul:
        return sum(_size(factor) for factor in value.args if not factor.is_number) or 1
    if value.is_Pow:
        return _size(value.base) + (_size(value.exp) if abs(value.exp) != 1 else 0)
    return (not value.is_Add and bool(value.args)) + sum(map(_size, value.args)) or 1

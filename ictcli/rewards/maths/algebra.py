"""Convert a tree to a sympy expression; refuse values that are too large or undefined."""

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import sympy

from ictcli.rewards.maths.nodes import UnreadableError
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.reader import tree_of
from ictcli.rewards.maths.trees import Tree

LARGEST_COUNT = 2000
"""Largest argument of a factorial or binomial."""
MOST_FACTORIALS = 6
"""Maximum number of factorials in an expression: sympy simplifies every pair of them."""
LARGEST_POWER = 20_000
"""Maximum number of digits of a power of a number, and largest exponent of other expressions."""


def read(text: str) -> Any:
    """Return the sympy expression of normalized LaTeX. UnreadableError if it cannot be parsed."""
    return value_of(tree_of(text, strict=True))


def value_of(tree: Tree) -> Any:
    """Return the sympy expression of a tree. UnreadableError if it has none."""
    if sum(part.head == "!" for part in tree.subtrees()) > MOST_FACTORIALS:
        raise UnreadableError("too many factorials")
    return _value(tree)


def _value(tree: Tree) -> Any:
    head, parts = tree.head, tree.parts
    if not parts:
        return _leaf(head)
    if head in SEVERAL:
        arguments = parts[0].parts if parts[0].head == "()" else parts
        return SEVERAL[head](*map(_value, arguments))
    values = [_value(part) for part in parts]
    if head[-2:] == "()" and len(head) > 2:
        return sympy.Function(head[:-2].lstrip("\\"))(*values)
    match head:
        case "+" | "*":
            return reduce(operator.add if head == "+" else operator.mul, values)
        case "-":
            return -values[0]
        case "/":
            if values[1] == 0:
                raise UnreadableError("divided by zero")
            return values[0] / values[1]
        case "^":
            return power(*values)
        case "!":
            return sympy.factorial(countable(values[0]))
        case "\\binom":
            return sympy.binomial(countable(values[0]), values[1])
        case "\\sqrt":
            return root(values[0], values[1] if len(values) > 1 else sympy.Integer(2))
        case "\\ln" | "\\log" | "\\lg":
            base = sympy.E if head == "\\ln" else values[1] if len(values) > 1 else 10
            return sympy.log(values[0], base)
        case _ if head in FUNCTIONS:
            return FUNCTIONS[head](*values)
        case _:
            raise UnreadableError(head)


def _leaf(text: str) -> Any:
    name = text.lstrip("\\")
    if text[:1].isdigit() or text[:1] == ".":
        if (value := number(text)) is None:
            raise UnreadableError("not a number, or too long")
        return sympy.Rational(value)
    if text in CONSTANTS:
        return CONSTANTS[text]
    if not name[:1].isalpha() or name == "infty":
        raise UnreadableError(text)
    return sympy.Symbol(name, real=True)


def countable(value: Any) -> Any:
    """Return the value. UnreadableError if it is a number above LARGEST_COUNT."""
    if value.is_number and abs(value) > LARGEST_COUNT:
        raise UnreadableError("too large a factorial or binomial")
    return value


def root(inside: Any, index: Any) -> Any:
    """Return the index-th root of `inside`; odd roots of negative numbers are real."""
    if index.is_Integer and index % 2 == 1:
        return sympy.sign(inside) * sympy.root(sympy.Abs(inside), index)
    return sympy.root(inside, index)


def power(base: Any, exponent: Any) -> Any:
    """Return base ** exponent. UnreadableError if the result would be very large, or if the base is
    0 and the exponent unknown: the result may be 0, 1 or undefined."""
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


def divisors(name: str) -> Callable[..., Any]:
    """Return the function gcd or lcm, which stay symbolic for unknowns: sympy's gcd(m, n) is 1."""

    def applied(*values: Any) -> Any:
        if all(value.is_Integer for value in values):
            return reduce(getattr(sympy, name), values)
        return sympy.Function(name)(*sorted(values, key=str))

    return applied


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "\\sin": sympy.sin, "\\cos": sympy.cos, "\\tan": sympy.tan, "\\cot": sympy.cot,
    "\\sec": sympy.sec, "\\csc": sympy.csc, "\\arcsin": sympy.asin, "\\arccos": sympy.acos,
    "\\arctan": sympy.atan, "\\arccot": sympy.acot, "\\sinh": sympy.sinh, "\\cosh": sympy.cosh,
    "\\tanh": sympy.tanh, "\\exp": sympy.exp, "||": sympy.Abs,
    "\\lfloor\\rfloor": sympy.floor, "\\lceil\\rceil": sympy.ceiling,
}  # fmt: skip
SEVERAL = {
    "\\max": sympy.Max, "\\min": sympy.Min, "\\gcd": divisors("gcd"), "\\lcm": divisors("lcm"),
}  # fmt: skip
CONSTANTS = {"e": sympy.E, "i": sympy.I, "\\pi": sympy.pi}

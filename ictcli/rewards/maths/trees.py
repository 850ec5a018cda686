"""Define trees of expressions as they are written. `reader` parses them, `finished` and `copies`
judge their form, and `algebra` computes their value."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from ictcli.rewards.maths.latex import GREEK, OPAQUE
from ictcli.rewards.maths.numbers import number

OPERATORS = {"\\sum", "\\prod", "\\int", "\\iint", "\\oint", "\\lim"}
CONSTANTS = {"\\pi", "e", "i", "\\infty", ""}
_LETTER = re.compile(rf"[A-Za-z]|\\(?:{'|'.join((*GREEK, *OPAQUE))})")


@dataclass(frozen=True)
class Tree:
    """A symbol, number or text (without parts), or an operation on its parts: `+` `-` (of one part)
    `*` `/` `^` `!` `%` `=`, a command, brackets, `,`, or in strict parsing a call, `f()`."""

    head: str
    parts: tuple["Tree", ...] = ()

    def __hash__(self) -> int:
        return hash(self.form)

    @cached_property
    def form(self) -> str:
        """Return the tree as text, independent of the order of terms, factors and sides. A quotient
        is a product with an inverse, and factors 1 are left out."""
        if not self.parts:
            return self.head
        if self.head in ("*", "/"):
            factors = sorted(factors_of(self))
            return factors[0] if len(factors) == 1 else f"*({' '.join(factors)})"
        forms = [part.form for part in self.parts]
        ordered = sorted(forms) if self.head in ("+", "=") else forms
        return f"{self.head}({' '.join(ordered)})"

    def subtrees(self) -> list["Tree"]:
        """Return the tree and all its subtrees."""
        trees: list[Tree] = [self]
        for tree in trees:
            trees.extend(tree.parts)
        return trees


def negative(tree: Tree) -> Tree:
    return tree.parts[0] if tree.head == "-" else Tree("-", (tree,))


def product(factors: Sequence[Tree]) -> Tree:
    flat = [part for tree in factors for part in (tree.parts if tree.head == "*" else (tree,))]
    return flat[0] if len(flat) == 1 else Tree("*", tuple(flat))


def factors_of(tree: Tree, inverse: bool = False) -> list[str]:
    if tree.head == "*":
        return [form for part in tree.parts for form in factors_of(part, inverse)]
    if tree.head == "/":
        return factors_of(tree.parts[0], inverse) + factors_of(tree.parts[1], not inverse)
    return [] if tree.head == "1" else [f"1/{tree.form}" if inverse else tree.form]


def is_number(tree: Tree) -> bool:
    if tree.parts:
        return all(map(is_number, tree.parts))
    return tree.head in CONSTANTS or not _LETTER.match(tree.head)


def rational(tree: Tree) -> Fraction | None:
    """Return the value of a number, a negated number or a quotient of numbers; else None."""
    if not tree.parts:
        return number(tree.head)
    if tree.head not in ("-", "/") or None in (values := list(map(rational, tree.parts))):
        return None
    first, *divisor = [value for value in values if value is not None]
    if not divisor:
        return -first
    return first / divisor[0] if divisor[0] else None


def is_rational(tree: Tree) -> bool:
    """Return whether a tree is a rational number, or an integer power of one."""
    if tree.head == "^":
        base, exponent = map(rational, tree.parts)
        return base is not None and exponent is not None and exponent.denominator == 1
    return rational(tree) is not None


def powers(tree: Tree, power: Fraction = Fraction(1)) -> list[tuple[Tree, Fraction]]:
    """Return the factors of an expression without its sign, as (base, exponent). Exponents are
    fractions for roots and negative for divisors."""
    head, parts = tree.head, tree.parts
    if head in ("*", "-"):
        return [factor for part in parts for factor in powers(part, power)]
    if head == "/":
        return powers(parts[0], power) + powers(parts[1], -power)
    if head == "\\sqrt":
        index = rational(parts[1]) if len(parts) > 1 else Fraction(2)
        return powers(tree.parts[0], power / index) if index else [(tree, power)]
    if head == "^" and (exponent := rational(parts[1])) is not None:
        return powers(parts[0], power * exponent)
    return [(tree, power)]


@lru_cache(maxsize=8192)
def shape(tree: Tree) -> str:
    """Return a formula as text that ignores signs, factors 1, terms 0 and the order of terms,
    factors and sides. Equal factors and roots become powers, and 0.5 becomes 1/2."""
    if (value := rational(tree)) is not None:
        return str(abs(value))
    factors = powers(tree)
    if factors[0][0] is not tree:
        exponents: dict[str, Fraction] = {}
        for base, power in factors:
            value = rational(base)
            parts = [(shape(base), power)]
            if value is not None:
                parts = [(str(abs(value.numerator)), power), (str(value.denominator), -power)]
            for name, exponent in parts:
                if name != "1":
                    exponents[name] = exponents.get(name, Fraction(0)) + exponent
        forms = sorted(f"{name}^{power}" for name, power in exponents.items() if power)
        return forms[0].removesuffix("^1") if len(forms) == 1 else f"*({' '.join(forms)})"
    forms = [shape(part) for part in tree.parts]
    if tree.head in ("+", "="):
        forms = sorted(form for form in forms if tree.head == "=" or form != "0")
    if tree.head == "+" and len(forms) == 1:
        return forms[0]
    return f"{tree.head}({' '.join(forms)})" if forms else tree.head

"""Sums that are not added up: like terms, numbers outside a bracket, squares of a sine and its
cosine."""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from ictcli.rewards.maths.bases import irrational
from ictcli.rewards.maths.trees import Tree, powers, rational


def has_like_terms(terms: tuple[Tree, ...]) -> bool:
    """Whether two terms of a sum can be added, or a term and one in a bracket with a number or
    monomial before it: `3(x+1)+3`."""
    likes = [set[str]().union(*(like(part) for part in opened(term))) for term in terms]
    counts = Counter(each for term in likes for each in term)
    return max(counts.values(), default=0) > 1


def like(term: Tree) -> set[str]:
    """The names of a term without its numbers."""
    return {" ".join(sorted(names)) for names in product(*irrational(term))}


def opened(term: Tree) -> list[Tree]:
    """The terms of a product of a sum and a number or monomial; any other term itself."""
    inner = term.parts[0] if term.head == "-" else term
    if inner.head != "*":
        return [term]
    sums = [factor for factor in inner.parts if factor.head == "+"]
    others = tuple(factor for factor in inner.parts if factor.head != "+")
    if len(sums) != 1 or any(part.head == "+" for each in others for part in each.subtrees()):
        return [term]
    return [Tree("*", (*others, part)) for part in sums[0].parts]


def has_squares(terms: tuple[Tree, ...]) -> bool:
    """Whether a sum holds a sine squared and the cosine squared of the same, times the same."""
    sines, cosines = (set(_beside(terms, name)) for name in ("\\sin", "\\cos"))
    return not sines.isdisjoint(cosines)


def _beside(terms: tuple[Tree, ...], name: str) -> Iterator[tuple[str, str, Fraction]]:
    """What the squares of a function are taken of, the other factors, and the number before."""
    for term in terms:
        number, factors, inside = Fraction(1), list[str](), list[str]()
        sign, rest = (-1, term.parts[0]) if term.head == "-" else (1, term)
        for base, power in powers(rest):
            value = rational(base)
            if base.head == name and power == 2:
                inside.append(base.parts[0].form)
            elif value and power.denominator == 1 and abs(power) < 100:
                number *= value**power.numerator
            else:
                factors.append(f"{base.form}^{power}")
        if len(inside) == 1:
            yield inside[0], " ".join(sorted(factors)), sign * number

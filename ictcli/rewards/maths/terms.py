"""Measure the length of expressions, and find terms that can be added and factors that combine."""

from collections import Counter
from fractions import Fraction
from itertools import product
from math import gcd

from ictcli.rewards.maths.trees import Tree, is_rational, powers, rational

PRIMES = [n for n in range(2, 100) if all(n % d for d in range(2, n))]
LOGARITHMS = ("\\ln", "\\log", "\\lg")


def length(tree: Tree) -> int:
    """Return how many symbols, operations and numbers a tree has, without its numeric factors."""
    head, parts = tree.head, tree.parts
    if not parts or is_rational(tree):
        return 1
    if head in ("*", "/"):
        return sum(length(part) for part in parts if not is_rational(part)) or 1
    if head == "^":
        exponent = rational(parts[1])
        raised = length(parts[1]) if exponent is None else int(abs(exponent) != 1)
        return length(parts[0]) + raised
    if head == "+":
        return sum(length(part) for part in parts if rational(part) != 0) or 1
    if head == "\\sqrt":
        parts = parts[: 1 + (rational(parts[-1]) is None)]
    return (head != "-") + sum(map(length, parts))


def primes(value: Fraction) -> dict[int, int]:
    """Return the exponents of a number's prime factors under 100, and of the remaining factor."""
    exponents: Counter[int] = Counter()
    for part, sign in ((abs(value.numerator), 1), (value.denominator, -1)):
        for prime in PRIMES:
            while part and part % prime == 0:
                part //= prime
                exponents[prime] += sign
        if part > 1:
            exponents[part] += sign
    return {prime: exponent for prime, exponent in exponents.items() if exponent}


def meet(tree: Tree) -> bool:
    """Return whether a product has two factors that combine: powers of one base, or roots."""
    bases: Counter[str] = Counter()
    roots: dict[tuple[int, bool], list[int]] = {}
    for base, power in powers(tree):
        if (value := rational(base)) is not None:
            if power.denominator > 1 and value:
                for part, above in ((value.numerator, True), (value.denominator, False)):
                    if abs(part) != 1:
                        key = (power.denominator, above == (power > 0))
                        roots.setdefault(key, []).append(part)
        elif base.head not in ("+", "^"):
            bases[base.form + " root" * (power.denominator > 1)] += 1
    return max(bases.values(), default=0) > 1 or any(
        len(parts) > 1 or any(gcd(a, b) > 1 for a in parts for b in roots.get((q, not above), []))
        for (q, above), parts in roots.items()
    )


def irrational(tree: Tree) -> list[list[str]]:
    """Return the factors of a term that are not rational, each as a list of alternative names:
    `\\ln 6` has a name for 2 and a name for 3. Terms that can have the same names can be added."""
    factors: list[list[str]] = []
    for base, power in powers(tree):
        if power.denominator > 1 and (inside := rational(base)):
            parts = primes(inside).items()
            factors += [[f"{p}^{e * power % 1}"] for p, e in parts if (e * power).denominator > 1]
        elif rational(base) is None:
            inside = _exponents(base.parts[0]) if base.head in LOGARITHMS else {}
            forms = [f"{base.head} {prime}" for prime in inside] or [base.form]
            factors.append([f"{form}^{power}" for form in forms])
    return factors


def _exponents(tree: Tree) -> dict[int, Fraction]:
    """Return the exponents of a number by prime; empty for any other tree."""
    exponents: dict[int, Fraction] = {}
    for base, power in powers(tree):
        if (value := rational(base)) is None:
            return {}
        for name, times in primes(value).items():
            exponents[name] = exponents.get(name, Fraction(0)) + times * power
    return exponents


def has_like_terms(terms: tuple[Tree, ...]) -> bool:
    """Return whether two terms of a sum can be added, possibly after multiplying out a product of a
    sum and a number or monomial: `3(x+1)+3`."""
    likes = [
        {" ".join(sorted(names)) for part in opened(term) for names in product(*irrational(part))}
        for term in terms
    ]
    counts = Counter(name for term in likes for name in term)
    return max(counts.values(), default=0) > 1


def opened(term: Tree) -> list[Tree]:
    """Return the terms of a sum times a number or monomial, multiplied out; else [term]."""
    inner = term.parts[0] if term.head == "-" else term
    if inner.head != "*":
        return [term]
    sums = [factor for factor in inner.parts if factor.head == "+"]
    others = tuple(factor for factor in inner.parts if factor.head != "+")
    if len(sums) != 1 or any(part.head == "+" for tree in others for part in tree.subtrees()):
        return [term]
    return [Tree("*", (*others, part)) for part in sums[0].parts]

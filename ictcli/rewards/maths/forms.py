"""How long the normal forms of an expression are.

What is longer than all of these hides something that cancels or can be added, however it is hidden.
"""

from math import comb
from typing import Any

import sympy

from ictcli.rewards.maths.bases import length
from ictcli.rewards.maths.trees import Tree, product, rational

_QUOTIENTS = {"\\tan": ("\\sin", "\\cos"), "\\cot": ("\\cos", "\\sin"),
              "\\sec": ("", "\\cos"), "\\csc": ("", "\\sin")}  # fmt: skip
_MOST_TERMS = 2000
"""Terms of the largest polynomial that is expanded."""
_HIGHEST = 40
_Pair = tuple[Any, Any]
"""Numerator and denominator."""


def is_shortest(tree: Tree, allowed: int) -> bool:
    """Whether an expression is no longer than allowed, or than its longest normal form (expanded,
    factored, a sum of fractions, a completed square), and has no factor above and below. True for
    what is too large."""
    forms = _Forms()
    try:
        longest = forms.longest(tree)
    except (ZeroDivisionError, OverflowError, sympy.PolynomialError):
        return True
    return longest is None or (longest > 0 and length(tree) <= max(longest, allowed))


class _Forms:
    """The normal forms of one expression. Its generators are what is no number, sum, product or
    power in it."""

    def __init__(self) -> None:
        self.lengths: dict[Any, int] = {}
        """The generators, with the length of each."""

    def longest(self, tree: Tree) -> int | None:
        """The length of the longest normal form, 0 if a fraction is not reduced; None if the
        expression is a number, or too large."""
        above, below = self.value(tree)
        count = len(self.lengths)
        degree = sum(int(abs(power.exp)) for each in (above, below)
                     for power in each.atoms(sympy.Pow)) + count  # fmt: skip
        if not count or comb(degree + count, count) > _MOST_TERMS:
            return None
        divisor = sympy.Poly(below, *self.lengths)
        above, below = sympy.fraction(sympy.cancel(above / below))
        above = self._by_pythagoras(above) if below.is_number else above
        polynomials = [sympy.Poly(each, *self.lengths) for each in (above, below)]
        if divisor.total_degree() > polynomials[1].total_degree():
            return 0
        return max(
            sum(map(self._expanded, polynomials)),
            sum(map(self._factored, polynomials)),
            self._split(above, below),
            self._shifted(*polynomials),
        )

    def value(self, tree: Tree) -> _Pair:
        """A fraction of polynomials in the generators, not reduced."""
        head, parts = tree.head, tree.parts
        if (exact := rational(tree)) is not None:
            return sympy.Rational(exact), sympy.Integer(1)
        match head:
            case "+":
                return self._sum([self.value(part) for part in parts])
            case "-":
                above, below = self.value(parts[0])
                return -above, below
            case "*":
                return self._product([self.value(part) for part in parts])
            case "/":
                return self._product([self.value(parts[0]), self._inverse(self.value(parts[1]))])
            case "^":
                return self._power(*parts)
            case "\\sqrt":
                index = parts[1] if len(parts) > 1 else Tree("2")
                return self._power(tree.parts[0], Tree("/", (Tree("1"), index)))
            case _ if head in _QUOTIENTS and len(parts) == 1:
                above, below = (Tree(name, parts) if name else Tree("1")
                                for name in _QUOTIENTS[head])  # fmt: skip
                return self.value(Tree("/", (above, below)))
            case "\\sin" | "\\cos" if parts[0].head == "*" and parts[0].parts[0].head == "2":
                half = product(parts[0].parts[1:])
                sine, cosine = (self.value(Tree(name, (half,)))[0] for name in ("\\sin", "\\cos"))
                double = 2 * sine * cosine if head == "\\sin" else cosine**2 - sine**2
                return double, sympy.Integer(1)
            case _:
                return self._generator(tree.form, 1 + sum(map(self._inner, parts)))

    def _generator(self, form: str, long: int) -> _Pair:
        symbol = sympy.Symbol(form)
        self.lengths.setdefault(symbol, long)
        return symbol, sympy.Integer(1)

    def _sum(self, pairs: list[_Pair]) -> _Pair:
        divisor = sympy.Integer(1)
        for _, below in pairs:
            divisor = sympy.lcm(divisor, below)
        terms = (above * sympy.cancel(divisor / below) for above, below in pairs)
        return sympy.Add(*terms), divisor

    def _product(self, pairs: list[_Pair]) -> _Pair:
        above, below = zip(*pairs, strict=True)
        return sympy.Mul(*above), sympy.Mul(*below)

    def _inverse(self, pair: _Pair) -> _Pair:
        if sympy.expand(pair[0]) == 0:
            raise ZeroDivisionError
        return pair[1], pair[0]

    def _power(self, base: Tree, exponent: Tree) -> _Pair:
        """Whole powers, and the generators that others are whole powers of: `e^{2x}` of `e^x`."""
        if exponent.head == "+":
            return self._product([self._power(base, part) for part in exponent.parts])
        if exponent.head == "-":
            return self._inverse(self._power(base, exponent.parts[0]))
        exact, part = rational(exponent), exponent
        times, long = 1, 1
        if exact is not None:
            times, part = exact.numerator, Tree("/", (Tree("1"), Tree(str(exact.denominator))))
        else:
            first = rational(exponent.parts[0]) if exponent.head == "*" else None
            if first is not None and first.denominator == 1:
                times, part = int(first), product(exponent.parts[1:])
            long = self._inner(part)
        if abs(times) > _HIGHEST:
            raise OverflowError
        if exact is not None and exact.denominator == 1:
            above, below = self.value(base)
        else:
            form = f"^({base.form} {part.form})"
            above, below = self._generator(form, self._inner(base) + long)
        raised = above ** abs(times), below ** abs(times)
        return raised if times >= 0 else self._inverse(raised)

    def _inner(self, tree: Tree) -> int:
        """The length of an argument in its longest form, or as it stands."""
        forms = _Forms()
        return forms.longest(tree) or (0 if forms.lengths else length(tree))

    def _by_pythagoras(self, value: Any) -> Any:
        """With 1 for the squares of a sine and its cosine, if that makes a sum shorter."""
        expand, terms = sympy.expand, sympy.Add.make_args
        for sine in self.lengths:
            cosine = sympy.Symbol(sine.name.replace("\\sin", "\\cos", 1))
            if sine.name.startswith("\\sin(") and cosine in self.lengths:
                reduced = sympy.Poly(value, sine).rem(sympy.Poly(sine**2 + cosine**2 - 1, sine))
                reduced = expand(reduced.as_expr())
                value = reduced if len(terms(reduced)) < len(terms(expand(value))) else value
        return value

    def _expanded(self, polynomial: Any) -> int:
        """The length of a polynomial as a sum of terms; a number counts as a term only."""
        if polynomial.is_ground:
            return 0
        lengths = list(self.lengths.values())
        terms = [
            sum(long + (power > 1) for long, power in zip(lengths, powers, strict=True) if power)
            for powers in polynomial.monoms()
        ]
        return sum(term or 1 for term in terms)

    def _factored(self, polynomial: Any) -> int:
        return sum(
            self._expanded(factor) * (1 if factor.is_monomial else times) + (times > 1)
            for factor, times in polynomial.factor_list()[1]
        )

    def _split(self, above: Any, below: Any) -> int:
        """The length as a sum of fractions: each term by the divisor, or partial fractions."""
        terms = sympy.Add.make_args(sympy.expand(above))
        found = [[sympy.cancel(term / below) for term in terms]]
        if len(self.lengths) == 1 and not below.is_number:
            found.append(sympy.Add.make_args(sympy.apart(above / below)))
        return max(sum(map(self._fraction, each)) for each in found)

    def _fraction(self, term: Any) -> int:
        pair = [sympy.Poly(each, *self.lengths) for each in sympy.fraction(term)]
        return sum(map(self._factored, pair)) or 1

    def _shifted(self, above: Any, below: Any) -> int:
        """The length of `a(x-h)^2+k` or `a(x-h)+k`."""
        unknown = [symbol for symbol in self.lengths if above.degree(symbol) > 0]
        if not below.is_ground or len(unknown) != 1 or (degree := above.degree(unknown[0])) > 2:
            return 0
        return self.lengths[unknown[0]] + degree + 1 if len(above.monoms()) > 1 else 0

"""How long an expression is, and how long the normal forms of its value are.

What is longer than all of these hides something that cancels or can be added, however it is hidden.
"""

from math import comb
from typing import Any, cast

from ictcli.rewards.maths.trees import Tree, rational

_QUOTIENTS = {"\\tan": ("\\sin", "\\cos"), "\\cot": ("\\cos", "\\sin"),
              "\\sec": ("", "\\cos"), "\\csc": ("", "\\sin")}  # fmt: skip
_MOST_TERMS = 2000
"""Terms of the largest polynomial that is expanded."""


def length(tree: Tree) -> int:
    """The number of symbols, operations and numbers, but of factors that are numbers."""
    head, parts = tree.head, tree.parts
    if not parts or rational(tree) is not None:
        return 1
    if head in ("*", "/"):
        return sum(length(part) for part in parts if rational(part) is None) or 1
    if head == "^":
        exponent = rational(parts[1])
        raised = length(parts[1]) if exponent is None else int(abs(exponent) != 1)
        return length(parts[0]) + raised
    if head == "+":
        return sum(length(part) for part in parts if rational(part) != 0) or 1
    if head == "\\sqrt":
        parts = parts[: 1 + (rational(parts[-1]) is None)]
    return (head != "-") + sum(map(length, parts))


def longest_form(tree: Tree) -> int | None:
    """The length of the longest normal form of an expression: expanded, factored, a sum of
    fractions, a completed square. None if it is too large. Imports sympy."""
    forms = _Forms()
    try:
        return forms.longest(tree)
    except (ZeroDivisionError, OverflowError, forms.sympy.PolynomialError):
        return None


class _Forms:
    """The normal forms of one expression. Its generators are what is no number, sum, product or
    power in it."""

    def __init__(self) -> None:
        import sympy  # pyright: ignore[reportMissingTypeStubs]

        self.sympy = cast(Any, sympy)
        self.lengths: dict[Any, int] = {}
        """The generators, with the length of each."""

    def longest(self, tree: Tree) -> int | None:
        value = self.value(tree)
        degree = sum(abs(int(power.exp)) if power.exp.is_Integer else 1
                     for power in value.atoms(self.sympy.Pow)) + len(self.lengths)  # fmt: skip
        if comb(degree + len(self.lengths), len(self.lengths)) > _MOST_TERMS:
            return None
        above, below = self.sympy.fraction(self.sympy.cancel(value))
        if not self.lengths:
            return None
        if below.is_number:
            above = self._by_pythagoras(above)
        polynomials = [self.sympy.Poly(each, *self.lengths) for each in (above, below)]
        return max(
            sum(map(self._expanded, polynomials)),
            sum(map(self._factored, polynomials)),
            self._split(above, below),
            self._shifted(*polynomials),
        )

    def generator(self, form: str, long: int) -> Any:
        symbol = self.sympy.Symbol(form)
        self.lengths.setdefault(symbol, long)
        return symbol

    def value(self, tree: Tree) -> Any:
        """A quotient of polynomials in the generators."""
        head, parts = tree.head, tree.parts
        if (exact := rational(tree)) is not None:
            return self.sympy.Rational(exact.numerator, exact.denominator)
        match head:
            case "+":
                return self.sympy.Add(*map(self.value, parts))
            case "-":
                return -self.value(parts[0])
            case "*":
                return self.sympy.Mul(*map(self.value, parts))
            case "/":
                return self.value(parts[0]) / self._divisor(parts[1])
            case "^":
                return self._power(*parts)
            case "\\sqrt":
                index = parts[1] if len(parts) > 1 else Tree("2")
                return self._power(parts[0], Tree("/", (Tree("1"), index)))
            case _ if head in _QUOTIENTS and len(parts) == 1:
                above, below = (self.value(Tree(name, parts)) if name else 1
                                for name in _QUOTIENTS[head])  # fmt: skip
                return above / below
            case "\\sin" | "\\cos" if (half := _half(parts[0])) is not None:
                sine, cosine = (self.value(Tree(name, (half,))) for name in ("\\sin", "\\cos"))
                return 2 * sine * cosine if head == "\\sin" else cosine**2 - sine**2
            case _:
                inner = sum(self._inner(part) for part in parts)
                return self.generator(tree.form, 1 + inner)

    def _divisor(self, tree: Tree) -> Any:
        value = self.value(tree)
        if value == 0:
            raise ZeroDivisionError
        return value

    def _power(self, base: Tree, exponent: Tree) -> Any:
        """Whole powers, and the generators that others are whole powers of: `e^{2x}` of `e^x`."""
        if exponent.head == "+":
            return self.sympy.Mul(*(self._power(base, part) for part in exponent.parts))
        if exponent.head == "-":
            return 1 / self._power(base, exponent.parts[0])
        exact = rational(exponent)
        if exact is not None and exact.denominator == 1:
            return (self._divisor if exact < 0 else self.value)(base) ** int(exact)
        if exact is not None:
            part, times = Tree("/", (Tree("1"), Tree(str(exact.denominator)))), exact.numerator
        else:
            numbers = [rational(each) for each in exponent.parts] if exponent.head == "*" else []
            times = next((int(n) for n in numbers if n is not None and n.denominator == 1), 1)
            rest = [each for each in exponent.parts if rational(each) is None]
            part = exponent if times == 1 else rest[0] if len(rest) == 1 else Tree("*", tuple(rest))
        raised = 1 if exact is not None else self._inner(part)
        return self.generator(f"^({base.form} {part.form})", self._inner(base) + raised) ** times

    def _inner(self, tree: Tree) -> int:
        """The length of an argument: its longest form, or as it stands."""
        return longest_form(tree) or length(tree)

    def _by_pythagoras(self, value: Any) -> Any:
        """With 1 for the squares of a sine and its cosine, if that makes a sum shorter."""
        for sine in self.lengths:
            cosine = self.sympy.Symbol(sine.name.replace("\\sin", "\\cos", 1))
            if sine.name.startswith("\\sin(") and cosine in self.lengths:
                expanded = self.sympy.expand(value)
                reduced = self.sympy.expand(
                    expanded.replace(
                        lambda part, sine=sine: (
                            part.is_Pow
                            and part.base == sine
                            and part.exp.is_Integer
                            and part.exp > 1
                        ),
                        lambda part, s=sine, c=cosine: (
                            (1 - c**2) ** (part.exp // 2) * s ** (part.exp % 2)
                        ),
                    )
                )
                if len(self.sympy.Add.make_args(reduced)) < len(self.sympy.Add.make_args(expanded)):
                    value = reduced
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
            self._expanded(factor) + (times > 1) for factor, times in polynomial.factor_list()[1]
        )

    def _split(self, above: Any, below: Any) -> int:
        """The length as a sum of fractions: each term by the divisor, or partial fractions."""
        terms = [self.sympy.Add.make_args(self.sympy.expand(above))]
        found = [[self.sympy.cancel(term / below) for term in terms[0]]]
        if len(self.lengths) == 1 and not below.is_number:
            found.append(self.sympy.Add.make_args(self.sympy.apart(above / below)))
        return max(sum(map(self._fraction, each)) for each in found)

    def _fraction(self, term: Any) -> int:
        pair = [self.sympy.Poly(each, *self.lengths) for each in self.sympy.fraction(term)]
        return sum(map(self._factored, pair)) or 1

    def _shifted(self, above: Any, below: Any) -> int:
        """The length of `a(x-h)^2+k` or `a(x-h)+k`."""
        unknown = [symbol for symbol in self.lengths if above.degree(symbol) > 0]
        if not below.is_ground or len(unknown) != 1 or (degree := above.degree(unknown[0])) > 2:
            return 0
        return self.lengths[unknown[0]] + degree + 1 if len(above.monoms()) > 1 else 0


def _half(tree: Tree) -> Tree | None:
    """x of `2x`; else None."""
    if tree.head != "*" or tree.parts[0].head != "2":
        return None
    return tree.parts[1] if len(tree.parts) == 2 else Tree("*", tree.parts[1:])

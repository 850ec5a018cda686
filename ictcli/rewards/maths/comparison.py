"""Compare two parsed answers node by node, by the rules of tests/rewards/rules.md."""

import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import chain, pairwise, product
from typing import Any

from ictcli.rewards.maths import relations, units, views
from ictcli.rewards.maths.latex import flat
from ictcli.rewards.maths.nodes import (
    Chain,
    Inequality,
    Items,
    Matrix,
    Named,
    Nearly,
    Node,
    Ratio,
    Scalar,
    UndecidedError,
    Union,
    UnreadableError,
    Words,
    expand,
    unnamed,
)
from ictcli.rewards.maths.numbers import decimal_places, number, plain
from ictcli.rewards.maths.structure import read

_LETTERS = re.compile("[A-Za-z]{4,}")
"""A run of letters that is a word, unless they are in alphabetical order, as in a product."""


class Comparison:
    """A comparison of nodes; `unreadable` becomes true if a part of them cannot be parsed."""

    def __init__(self, algebra: bool) -> None:
        self.algebra = algebra
        self.unreadable = False

    def first_same(self, pairs: Iterable[tuple[Node, Node]]) -> int | None:
        """Return the index of the first pair of equal nodes, or None. UndecidedError if no pair is
        equal without algebra, but algebra might find an equal pair."""
        undecided = False
        for place, (gold, answer) in enumerate(pairs):
            try:
                if self.same(gold, answer):
                    return place
            except UndecidedError:
                undecided = True
            except UnreadableError:  # from a side of an equation
                self.unreadable = True
        if undecided:
            raise UndecidedError
        return None

    def same(self, gold: Node, answer: Node) -> bool:
        gold, answer = expand(gold), expand(answer)
        for kind, same in (
            (Nearly, self._nearly),
            (Inequality, self._inequalities),
            (Named, self._named),
            (Chain, self._chains),
            (Ratio, self._ratios),
            (Union, self._unions),
        ):
            if isinstance(gold, kind) or isinstance(answer, kind):
                return same(gold, answer)
        match gold, answer:
            case Items(), Items():
                return self._items(gold, answer)
            case Matrix(), Matrix():
                return self._matrices(gold, answer)
            case Scalar(), Scalar():
                return self.scalars(gold, answer)
            case (Words(), _) | (_, Words()):
                return views.spoken(gold) is not None and views.spoken(gold) == views.spoken(answer)
            case _:
                return gold == answer

    def _nearly(self, gold: Node, answer: Node) -> bool:
        return self.first_same(product(self._sides(gold), self._sides(answer))) is not None

    def _unions(self, gold: Node, answer: Node) -> bool:
        left, right = relations.ranges(gold), relations.ranges(answer)
        if left is not None and right is not None:
            return left == right
        if isinstance(gold, Union) and isinstance(answer, Union):
            return self._matching(gold.parts, answer.parts)
        return False

    def _sides(self, node: Node) -> list[Node]:
        """Return the answers that an approximation `A \\approx B` states: B, and A unless A is a
        plain number; none if B is not A rounded. Return any other node in a list."""
        if not isinstance(node, Nearly):
            return [node]
        exact, *roundings = map(unnamed, node.sides)
        if isinstance(exact, Chain):
            exact = self._value(exact)
        if not isinstance(exact, Scalar) or not all(
            self._rounds(exact, rounding) for rounding in roundings
        ):
            return []
        first, last = node.sides[0], node.sides[-1]
        return [last] if plain(exact.text.lstrip("+-")) else [first, last]

    def _rounds(self, exact: Scalar, rounding: Node) -> bool:
        """Return whether `rounding` is the exact value, or rounds it to three digits or more."""
        if not isinstance(rounding, Scalar) or not units.agree(exact, rounding):
            return False
        if (exact.unit == "%") != (rounding.unit == "%"):
            return False
        left, right = number(exact.text), number(rounding.text)
        if right is None or (left is not None and left == right):
            return right is not None
        places = decimal_places(rounding.text, 3)
        if places is None:
            return False
        if left is not None:
            return abs(left - right) <= Fraction(1, 2 * 10**places)
        return self._algebra(lambda symbols: symbols.rounds(exact.text, right, places))

    def _named(self, gold: Node, answer: Node) -> bool:
        if isinstance(gold, Named) and isinstance(answer, Named):
            names = {gold.name, answer.name}
            alike = len(names) == 1 or names in ({"y", "f(x)"}, {"y", "g(x)"}, {"y", "h(x)"})
            if alike and self.same(gold.value, answer.value):
                return True
            left, right = views.assigned(gold), views.assigned(answer)
            if left is not None and right is not None:
                return gold.name != answer.name and self.same(left, right)
            return self._equations(gold, answer) or self._inequalities(gold, answer)
        named, other = (gold, answer) if isinstance(gold, Named) else (answer, gold)
        assert isinstance(named, Named)
        if isinstance(other, Chain) and self._equations(named, other):
            return True
        if isinstance(other, Items) and other.brackets == "=":
            items = views.assigned(named)
            return items is not None and self.same(items, other)
        if not views.is_value_alone(named):
            return False
        pair = (named.value, other) if named is gold else (other, named.value)
        return self.same(*pair)

    def _chains(self, gold: Node, answer: Node) -> bool:
        if self._equations(gold, answer):
            return True
        left, right = self._value(gold), self._value(answer)
        return left is not None and right is not None and self.same(left, right)

    def _value(self, node: Node) -> Node | None:
        """Return the last side of `a = b = c` if all are equal, else None; other nodes as is."""
        if not isinstance(node, Chain):
            return node
        sides = [read(side) for side in node.sides]
        return sides[-1] if all(self._identical(*pair) for pair in pairwise(sides)) else None

    def _identical(self, first: Node, second: Node) -> bool:
        """Return whether two sides of a chain are equal; 50% equals 0.5, and not 50."""
        if isinstance(first, Scalar) and isinstance(second, Scalar):
            units_of = {first.unit, second.unit}
            if "%" in units_of and len(units_of) > 1:
                first, second = views.in_hundredths(first), views.in_hundredths(second)
            return self.scalars(first, second)
        nearly = isinstance(first, Nearly) or isinstance(second, Nearly)
        return not nearly and self.same(first, second)

    def _equations(self, gold: Node, answer: Node) -> bool:
        left, right = relations.difference(gold), relations.difference(answer)
        if left is None or right is None:
            return False
        return self._algebra(lambda symbols: symbols.proportional(left, right) != 0)

    def _inequalities(self, gold: Node, answer: Node) -> bool:
        first, second = map(relations.as_inequality, (gold, answer))
        if first is None or second is None or first.sign != second.sign:
            return False
        left, right = (f"({node.left})-({node.right})" for node in (first, second))
        signs = (1, -1) if first.sign == "!=" else (1,)
        return self._algebra(lambda symbols: symbols.proportional(left, right) in signs)

    def _ratios(self, gold: Node, answer: Node) -> bool:
        left, right = relations.ratio_terms(gold), relations.ratio_terms(answer)
        if left is None or right is None or len(left) != len(right):
            return False
        zero = any(number(term) == 0 for term in left + right)
        if zero or relations.is_time(gold):
            both = isinstance(gold, Ratio) and isinstance(answer, Ratio)
            alike = both and relations.is_time(gold) == relations.is_time(answer)
            return alike and list(map(number, left)) == list(map(number, right))
        return all(
            self.scalars(Scalar(f"({a})({right[0]})"), Scalar(f"({b})({left[0]})"))
            for a, b in zip(left, right, strict=True)
        )

    def _items(self, gold: Items, answer: Items) -> bool:
        if len(gold.items) != len(answer.items):
            return False
        if gold.brackets != answer.brackets:
            gold, answer = views.of_one_letter(gold), views.of_one_letter(answer)
        brackets = {gold.brackets, answer.brackets}
        words = any(isinstance(item, Words) for item in gold.items)
        left, right = views.with_names(gold.items), views.with_names(answer.items)
        things, others = views.with_nouns(gold.items), views.with_nouns(answer.items)
        if things and others:
            left, right = things, others
        if brackets <= {"", "{}"} and not (words and brackets == {""}):
            return self._matching(left, right)
        return len(brackets) == 1 and self._in_order(left, right)

    def _matching(self, gold: Sequence[Node], answer: Sequence[Node]) -> bool:
        """Return whether the parts are equal in some order. Each gold part is paired with the first
        equal answer part, which could be wrong only for percentages and roundings."""
        if len(gold) != len(answer):
            return False
        left = list(answer)
        for part in gold:
            place = self.first_same((part, other) for other in left)
            if place is None:
                return False
            del left[place]
        return True

    def _matrices(self, gold: Matrix, answer: Matrix) -> bool:
        if gold.kind != answer.kind or list(map(len, gold.rows)) != list(map(len, answer.rows)):
            return False
        left, right = (views.with_names(tuple(chain(*matrix.rows))) for matrix in (gold, answer))
        return self._in_order(left, right)

    def _in_order(self, gold: Sequence[Node], answer: Sequence[Node]) -> bool:
        undecided = False
        for left, right in zip(gold, answer, strict=True):
            try:
                if not self.same(left, right):
                    return False
            except UndecidedError:
                undecided = True
        if undecided:
            raise UndecidedError
        return True

    def scalars(self, gold: Scalar, answer: Scalar) -> bool:
        gold, answer = views.with_letter(gold, answer), views.with_letter(answer, gold)
        if not units.agree(gold, answer):
            return False
        if (gold.unit == "%") != (answer.unit == "%"):
            return self._percent(*((gold, answer) if gold.unit == "%" else (answer, gold)))
        first, second = flat(gold.text), flat(answer.text)
        if first == second:
            return True
        if all(_LETTERS.fullmatch(text) and list(text) != sorted(text) for text in (first, second)):
            return False
        if "\\infty" in gold.text + answer.text and "_" not in gold.text + answer.text:
            return first.lstrip("+") == second.lstrip("+")
        left, right = number(gold.text), number(answer.text)
        if left is not None and right is not None:
            return left == right
        return self._algebra(lambda symbols: symbols.equal(gold.text, answer.text))

    def _percent(self, percent: Scalar, bare: Scalar) -> bool:
        """Return whether p% equals a number without a percent sign: p / 100, or p if |p| > 1."""
        left, right = number(percent.text), number(bare.text)
        if left is None or right is None:
            return self.scalars(views.in_hundredths(percent), bare)
        return left == 100 * right or (left == right and abs(left) > 1)

    def _algebra(self, decide: Callable[[Any], bool]) -> bool:
        if not self.algebra:
            raise UndecidedError
        from ictcli.rewards.maths import symbols  # imports sympy

        try:
            return decide(symbols)
        except UnreadableError:
            self.unreadable = True
            return False

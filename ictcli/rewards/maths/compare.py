"""Whether an answer says what the gold says, by structure first and by algebra where it must."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

from ictcli.rewards.maths import units
from ictcli.rewards.maths.alike import (
    alike,
    alike_words,
    ascending,
    constant,
    in_order,
    last,
    spoken,
    with_letter,
    without_name,
)
from ictcli.rewards.maths.latex import OPEN, balanced, flat, letters, tidy
from ictcli.rewards.maths.nodes import (
    Chain,
    Inequality,
    Items,
    MalformedError,
    Matrix,
    Named,
    Nearly,
    Node,
    Numeral,
    Ratio,
    Scalar,
    Union,
    Words,
)
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.ranges import difference, ranges, ratio_terms
from ictcli.rewards.maths.shape import expand, read

LONGEST = 800
"""Characters of the longest answer that is read; a longer one is the gold verbatim or nothing."""

Outcome = Literal["same", "different", "unreadable"]


class UndecidedError(Exception):
    """Algebra is needed, and was not asked for."""


def readable(gold: str) -> bool:
    """Whether a gold has a structure that an answer can be compared with."""
    if not balanced(gold) or len(gold) > LONGEST or not (text := tidy(gold)):
        return False
    try:
        read(text)
    except (MalformedError, RecursionError):
        return False
    return True


def compare(answer: str, gold: str, *, algebra: bool) -> Outcome:
    """Without `algebra` it is fast and safe, and raises UndecidedError where that is not enough."""
    if answer.strip() == gold.strip() and answer.strip():
        return "same"
    if len(answer) > LONGEST or len(gold) > LONGEST or not balanced(answer) or not balanced(gold):
        return "unreadable"
    left, right = tidy(gold), tidy(answer)
    if not left or not right:
        return "unreadable"
    if flat(left) == flat(right) or (OPEN in left + right and alike_words(left, right)):
        return "same"
    try:
        meanings = read(right)
    except (MalformedError, RecursionError):
        return "unreadable"
    try:
        golds = read(left)
    except (MalformedError, RecursionError):
        return "different"
    judge = Comparison(algebra)
    undecided = False
    for wanted in golds:
        for meaning in meanings:
            try:
                if judge.same(wanted, meaning):
                    return "same"
            except UndecidedError:
                undecided = True
    if undecided:
        raise UndecidedError
    return "unreadable" if judge.unreadable else "different"


class Comparison:
    """One comparison; `unreadable` afterwards: some part of the answer could not be parsed."""

    def __init__(self, algebra: bool) -> None:
        self.algebra = algebra
        self.unreadable = False

    def same(self, gold: Node, answer: Node) -> bool:
        gold, answer = expand(gold), expand(answer)
        if isinstance(gold, Nearly):
            return any(self.same(side, answer) for side in gold.sides[:2])
        if isinstance(answer, Nearly):
            if not all(self._near(*pair) for pair in pairwise(answer.sides)):
                return False
            return self.same(gold, answer.sides[0]) or self.same(gold, answer.sides[-1])
        if isinstance(gold, Named) or isinstance(answer, Named):
            return self._named(gold, answer)
        if isinstance(gold, Chain) or isinstance(answer, Chain):
            return self._chains(gold, answer)
        if isinstance(gold, Ratio) or isinstance(answer, Ratio):
            return self._ratios(gold, answer)
        if isinstance(gold, Items) and isinstance(answer, Items):
            return self._items(gold, answer)
        if isinstance(gold, Union) or isinstance(answer, Union):
            left, right = ranges(gold), ranges(answer)
            if left is not None and right is not None:
                return left == right
            if isinstance(gold, Union) and isinstance(answer, Union):
                return self._matching(gold.parts, answer.parts)
            return False
        if isinstance(gold, Matrix) and isinstance(answer, Matrix):
            return gold.kind == answer.kind and self._rows(gold.rows, answer.rows)
        if isinstance(gold, Numeral) and isinstance(answer, Numeral):
            return gold == answer
        if isinstance(gold, Inequality) and isinstance(answer, Inequality):
            return self._inequalities(gold, answer)
        if isinstance(gold, Words) or isinstance(answer, Words):
            return self._words(gold, answer)
        if isinstance(gold, Scalar) and isinstance(answer, Scalar):
            return self.scalars(gold, answer)
        return False

    def _named(self, gold: Node, answer: Node) -> bool:
        if isinstance(gold, Named) and isinstance(answer, Named):
            if alike(gold.name, answer.name) and self.same(gold.value, answer.value):
                return True
            return self._equations(gold, answer)
        if isinstance(gold, Chain) or isinstance(answer, Chain):
            return self._equations(gold, answer)
        for one in (gold, answer):
            if isinstance(one, Named) and one.name[:1] == "(" and not ascending(one.name):
                return False
        if isinstance(gold, Named):
            return self.same(gold.value, without_name(answer, gold.name))
        assert isinstance(answer, Named)
        return self.same(without_name(gold, answer.name), answer.value)

    def _chains(self, gold: Node, answer: Node) -> bool:
        if isinstance(gold, Chain) and isinstance(answer, Chain):
            if self._equations(gold, answer):
                return True
            return self.same(last(gold), last(answer)) if self._value(gold) else False
        if isinstance(answer, Chain):
            solved = len(answer.sides) == 2 and len(letters(answer.sides[0])) > 1
            solved = solved and constant(answer.sides[1])
            return (solved or self._value(answer)) and self.same(gold, last(answer))
        assert isinstance(gold, Chain)
        return self._value(gold) and self.same(last(gold), answer)

    def _value(self, chain: Chain) -> bool:
        """Whether it is a computation: constants, each about the next."""
        if not all(map(constant, chain.sides)):
            return False
        sides = [read(side)[0] for side in chain.sides]
        return all(self._near(one, other) for one, other in pairwise(sides))

    def _near(self, one: Node, other: Node) -> bool:
        """Whether two values agree to a few per cent, as roundings do."""
        one, other = (n.value if isinstance(n, Named) else n for n in (one, other))
        if not isinstance(one, Scalar) or not isinstance(other, Scalar):
            return self.same(one, other)
        left, right = number(one.text), number(other.text)
        if left is not None and right is not None:
            return abs(left - right) <= max(abs(left), abs(right)) / 20
        return self._algebra(lambda symbols: symbols.near(one.text, other.text))

    def _equations(self, gold: Node, answer: Node) -> bool:
        sides = [difference(gold), difference(answer)]
        if sides[0] is None or sides[1] is None:
            return False
        return self._algebra(
            lambda symbols: symbols.proportional(str(sides[0]), str(sides[1])) != 0
        )

    def _inequalities(self, gold: Inequality, answer: Inequality) -> bool:
        if gold.sign != answer.sign:
            return False
        left, right = (f"({one.left})-({one.right})" for one in (gold, answer))
        signs = (1, -1) if gold.sign == "!=" else (1,)
        return self._algebra(lambda symbols: symbols.proportional(left, right) in signs)

    def _ratios(self, gold: Node, answer: Node) -> bool:
        left, right = ratio_terms(gold), ratio_terms(answer)
        if left is None or right is None or len(left) != len(right):
            return False
        zeros = [[number(term) == 0 for term in side] for side in (left, right)]
        if zeros[0] != zeros[1] or all(zeros[0]):
            return False
        base = zeros[0].index(False)
        return all(
            self.scalars(Scalar(f"({a})({right[base]})"), Scalar(f"({b})({left[base]})"))
            for a, b in zip(left, right, strict=True)
        )

    def _items(self, gold: Items, answer: Items) -> bool:
        if len(gold.items) != len(answer.items):
            return False
        loose = {gold.brackets, answer.brackets}
        if "{}" in loose or loose == {""}:
            return loose <= {"", "{}"} and self._matching(gold.items, answer.items)
        if loose != {"", "()"} and len(loose) > 1:
            return False
        return self._rows([in_order(gold.items)], [in_order(answer.items)])

    def _matching(self, gold: Sequence[Node], answer: Sequence[Node]) -> bool:
        """Whether each part of one is a part of the other, in any order. The first partner is as
        good as any but where percent or rounding make equality no equivalence."""
        if len(gold) != len(answer):
            return False
        left = list(answer)
        for wanted in gold:
            undecided = False
            for place, given in enumerate(left):
                try:
                    if self.same(wanted, given):
                        del left[place]
                        break
                except UndecidedError:
                    undecided = True
            else:
                if undecided:
                    raise UndecidedError
                return False
        return True

    def _rows(self, gold: Sequence[Sequence[Node]], answer: Sequence[Sequence[Node]]) -> bool:
        if [len(row) for row in gold] != [len(row) for row in answer]:
            return False
        undecided = False
        for wanted, given in zip(gold, answer, strict=True):
            for one, other in zip(wanted, given, strict=True):
                try:
                    if not self.same(one, other):
                        return False
                except UndecidedError:
                    undecided = True
        if undecided:
            raise UndecidedError
        return True

    def _words(self, gold: Node, answer: Node) -> bool:
        left, right = spoken(gold), spoken(answer)
        return left is not None and left == right

    def scalars(self, gold: Scalar, answer: Scalar) -> bool:
        gold, answer = with_letter(gold, answer), with_letter(answer, gold)
        if not units.agree(gold.unit, answer.unit):
            return False
        if flat(gold.text) == flat(answer.text):
            return True
        hundredfold = [gold.unit == "%", answer.unit == "%"]
        left, right = number(gold.text), number(answer.text)
        if left is not None and right is not None:
            if left == right:
                return True
            if hundredfold[0] != hundredfold[1]:
                return left == 100 * right if hundredfold[0] else right == 100 * left
            return False
        if self._algebra(lambda symbols: symbols.equal(gold.text, answer.text)):
            return True
        if hundredfold[0] == hundredfold[1]:
            return False
        whole, part = (gold, answer) if hundredfold[0] else (answer, gold)
        return self._algebra(lambda symbols: symbols.equal(f"({whole.text})/100", part.text))

    def _algebra(self, decide: Callable[[Any], bool]) -> bool:
        if not self.algebra:
            raise UndecidedError
        from ictcli.rewards.maths import symbols  # brings sympy

        try:
            return decide(symbols)
        except symbols.UnreadableError:
            self.unreadable = True
            return False

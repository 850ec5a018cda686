"""Whether an answer equals the gold: by text and structure first, by algebra where needed."""

import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import chain, pairwise, product
from typing import Any, Literal

from ictcli.rewards.maths import units
from ictcli.rewards.maths.latex import CLOSE, OPEN, balanced, flat, letters, tidy
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
from ictcli.rewards.maths.relations import difference, ranges, ratio_terms
from ictcli.rewards.maths.structure import expand, is_word, read, simple

LONGEST = 800
"""Characters of the longest answer that is parsed; a longer one must be the gold verbatim."""

Outcome = Literal["same", "different", "unreadable"]


class UndecidedError(Exception):
    """The verdict needs algebra, which the caller did not allow."""


def readable(gold: str) -> bool:
    """Whether a gold can be parsed, so that answers can be compared with it."""
    return balanced(gold) and len(gold) <= LONGEST and bool(readings(tidy(gold)))


def readings(text: str) -> list[Node]:
    """The readings of a tidy text; none if it cannot be parsed."""
    try:
        return read(text)
    except (MalformedError, RecursionError):
        return []


def compare(answer: str, gold: str, *, algebra: bool) -> Outcome:
    """Whether an answer equals the gold. Without `algebra` this is fast and safe, and raises
    UndecidedError if only algebra can tell."""
    if answer.strip() == gold.strip() and answer.strip():
        return "same"
    if len(answer) > LONGEST or len(gold) > LONGEST or not balanced(answer) or not balanced(gold):
        return "unreadable"
    left, right = tidy(gold), tidy(answer)
    if not left or not right:
        return "unreadable"
    if flat(left) == flat(right):
        return "same"
    if OPEN in left + right and folded(left) == folded(right) and len(folded(left)) > 1:
        return "same"
    answers = readings(right)
    comparison = Comparison(algebra)
    if comparison.first_same(product(readings(left), answers)) is not None:
        return "same"
    return "unreadable" if comparison.unreadable or not answers else "different"


class Comparison:
    """One comparison of nodes; `unreadable` is set if some part could not be parsed."""

    def __init__(self, algebra: bool) -> None:
        self.algebra = algebra
        self.unreadable = False

    def first_same(self, pairs: Iterable[tuple[Node, Node]]) -> int | None:
        """Index of the first pair whose nodes are the same, or None. UndecidedError if there is
        none without algebra."""
        undecided = False
        for place, (gold, answer) in enumerate(pairs):
            try:
                if self.same(gold, answer):
                    return place
            except UndecidedError:
                undecided = True
            except MalformedError:  # a side of an equation
                self.unreadable = True
        if undecided:
            raise UndecidedError
        return None

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
            return spoken(gold) is not None and spoken(gold) == spoken(answer)
        if isinstance(gold, Scalar) and isinstance(answer, Scalar):
            return self.scalars(gold, answer)
        return False

    def _named(self, gold: Node, answer: Node) -> bool:
        if isinstance(gold, Named) and isinstance(answer, Named):
            names = {gold.name, answer.name}
            alike = len(names) == 1 or names in ({"y", "f(x)"}, {"y", "g(x)"}, {"y", "h(x)"})
            if alike and self.same(gold.value, answer.value):
                return True
            return self._equations(gold, answer)
        if isinstance(gold, Chain) or isinstance(answer, Chain):
            return self._equations(gold, answer)
        for node in (gold, answer):
            if isinstance(node, Named) and node.name[:1] == "(":
                names = node.name.strip("()").split(",")
                if names != sorted(names):
                    return False
        if isinstance(gold, Named):
            return self.same(gold.value, without_name(answer, gold.name))
        assert isinstance(answer, Named)
        return self.same(without_name(gold, answer.name), answer.value)

    def _chains(self, gold: Node, answer: Node) -> bool:
        if isinstance(gold, Chain) and isinstance(answer, Chain):
            return self._equations(gold, answer) or (
                self._value(gold) and self.same(last(gold), last(answer))
            )
        if isinstance(answer, Chain):
            unknowns = [len(letters(side)) for side in answer.sides]
            solved = len(unknowns) == 2 and unknowns[0] > 1 and unknowns[1] == 0
            return (solved or self._value(answer)) and self.same(gold, last(answer))
        assert isinstance(gold, Chain)
        return self._value(gold) and self.same(last(gold), answer)

    def _value(self, equation: Chain) -> bool:
        """Whether a chain is a computation: constants, each about equal to the next."""
        if any(map(letters, equation.sides)):
            return False
        sides = [read(side)[0] for side in equation.sides]
        return all(self._near(*pair) for pair in pairwise(sides))

    def _near(self, first: Node, second: Node) -> bool:
        """Whether two values agree to 5 %, as roundings do."""
        first, second = (n.value if isinstance(n, Named) else n for n in (first, second))
        if not isinstance(first, Scalar) or not isinstance(second, Scalar):
            return self.same(first, second)
        left, right = number(first.text), number(second.text)
        if left is not None and right is not None:
            return abs(left - right) <= max(abs(left), abs(right)) / 20
        return self._algebra(lambda symbols: symbols.near(first.text, second.text))

    def _equations(self, gold: Node, answer: Node) -> bool:
        left, right = difference(gold), difference(answer)
        if left is None or right is None:
            return False
        return self._algebra(lambda symbols: symbols.proportional(left, right) != 0)

    def _inequalities(self, gold: Inequality, answer: Inequality) -> bool:
        if gold.sign != answer.sign:
            return False
        left, right = (f"({node.left})-({node.right})" for node in (gold, answer))
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
        """Whether the parts are the same in any order. Each gold takes the first answer that is
        the same; only percentages and roundings could make that choice matter."""
        if len(gold) != len(answer):
            return False
        left = list(answer)
        for part in gold:
            place = self.first_same((part, other) for other in left)
            if place is None:
                return False
            del left[place]
        return True

    def _rows(self, gold: Sequence[Sequence[Node]], answer: Sequence[Sequence[Node]]) -> bool:
        if [len(row) for row in gold] != [len(row) for row in answer]:
            return False
        undecided = False
        for left, right in zip(chain.from_iterable(gold), chain.from_iterable(answer), strict=True):
            try:
                if not self.same(left, right):
                    return False
            except UndecidedError:
                undecided = True
        if undecided:
            raise UndecidedError
        return True

    def scalars(self, gold: Scalar, answer: Scalar) -> bool:
        gold, answer = with_letter(gold, answer), with_letter(answer, gold)
        if not units.agree(gold.unit, answer.unit):
            return False
        if flat(gold.text) == flat(answer.text):
            return True
        percent = (gold.unit == "%") - (answer.unit == "%")
        left, right = number(gold.text), number(answer.text)
        if left is not None and right is not None:
            return left == right or (percent != 0 and left == right * Fraction(100) ** percent)
        if self._algebra(lambda symbols: symbols.equal(gold.text, answer.text)):
            return True
        whole, part = (gold, answer) if percent > 0 else (answer, gold)
        return percent != 0 and self._algebra(
            lambda symbols: symbols.equal(f"({whole.text})/100", part.text)
        )

    def _algebra(self, decide: Callable[[Any], bool]) -> bool:
        if not self.algebra:
            raise UndecidedError
        from ictcli.rewards.maths import symbols  # imports sympy

        try:
            return decide(symbols)
        except symbols.UnreadableError:
            self.unreadable = True
            return False


def folded(text: str) -> str:
    """Tidy text with its words in lower case and without punctuation; symbols keep their case."""
    text = re.sub(rf"{OPEN}[^{CLOSE}]*{CLOSE}", lambda marked: simple(marked[0]), text)
    text = re.sub(
        r"(?<![A-Za-z\\])[A-Za-z]{2,}(?![A-Za-z])",
        lambda run: run[0].lower() if is_word(run[0]) else run[0],
        text,
    )
    return flat(text)


def spoken(node: Node) -> str | None:
    """Words, or the text of a scalar, without spaces; None for other nodes."""
    if isinstance(node, Words):
        return node.text.replace(" ", "")
    return simple(flat(node.text)).replace(" ", "") if isinstance(node, Scalar) else None


def with_letter(scalar: Scalar, other: Scalar) -> Scalar:
    """`20 s` as 20 seconds if the other side is in seconds; else s is a symbol."""
    if scalar.unit or not other.unit:
        return scalar
    letter = re.fullmatch(r"(.*\d) ([a-zA-Z])", scalar.text)
    if letter and units.canonical(letter[2]) == other.unit:
        return Scalar(letter[1], other.unit)
    return scalar


def in_order(items: Sequence[Node]) -> Sequence[Node]:
    """`y = 1, x = 2` in the order of the names; anything else unchanged."""
    named = {item.name: item for item in items if isinstance(item, Named)}
    return [named[name] for name in sorted(named)] if len(named) == len(items) else items


def without_name(node: Node, name: str) -> Node:
    """`x = 1, x = 2` as `1, 2` if every item has that name."""
    if isinstance(node, Items) and not node.brackets:
        named = [item for item in node.items if isinstance(item, Named) and item.name == name]
        if len(named) == len(node.items):
            return Items("", tuple(item.value for item in named))
    return node


def last(equation: Chain) -> Node:
    """The last side of a chain."""
    return read(equation.sides[-1])[0]

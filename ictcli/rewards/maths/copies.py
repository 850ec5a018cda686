"""Whether an answer that equals the gold is a formula of the question: the rule `copy` of
tests/rewards/rules.md."""

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import gcd
from typing import NamedTuple

from ictcli.rewards.maths.compare import LONGEST, content, reading
from ictcli.rewards.maths.finished import COLLECTIONS, is_name, leaves_work, written
from ictcli.rewards.maths.latex import CLOSE, FUNCTIONS, OPEN, ROW, balanced, flat, letters, tidy
from ictcli.rewards.maths.nodes import Chain, Named, UndecidedError, UnreadableError, split
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.reader import tree_of
from ictcli.rewards.maths.trees import Tree, is_number, powers, rational, shape

LONGEST_QUESTION = 20_000
"""Characters of a question that are searched."""

_RELATION = re.compile(r"[=<>]|\\(?:le|ge|ne|in|approx|equiv)(?![a-z])")
_HIGHEST = 12
"""The highest power that is a product."""
_FORMULA = re.compile(
    r"\$\$(.+?)\$\$|(?<!\\)\$(.+?)(?<!\\)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]"
    r"|(\\begin\{(?:align|equation|gather|eqnarray)\*?\}.+?\\end\{(?:align|equation|gather|eqnarray)\*?\})",
    re.S,
)
_WORDS = re.compile(
    rf"(?:(?<![\\A-Za-z])(?!(?:{'|'.join(FUNCTIONS)}|sqrt|pi)(?![A-Za-z]))[A-Za-z]{{2,}}"
    r"|(?<![\\\w])[aAI](?=\s+[\w$])|[?!;](?=\s|$)|[.,:](?=\s|$)|\n)+"
)
_REWRITTEN = re.compile(
    r"(?is)\b(?:re)?(?:write|express|convert|change|represent|what\s+is)\s+"
    r"(?:the\s+(?:[a-z]+\s+){1,2})?(.{1,80}?)\s+(?:as|in|to|into|with|without|using)\b"
)
"""`Write 3/5 as a decimal`."""
_DECIMAL = re.compile(r"(?<![\d.])0*(\d*)\.(\d+?)0*(?!\d)")

Signs = frozenset[tuple[str, int]]
"""The symbols, numbers and functions of a formula, each with its count."""


def copied(answer: str, gold: str, question: str) -> bool:
    """Whether an answer is a formula of the question, or a part of one, however it is ordered and
    written, and the gold is not. A number in normal form or a symbol is none, unless the question
    has no other formula."""
    right, left = tidy(answer), tidy(content(gold))
    if flat(right) == flat(left):
        return False
    formulas = _formulas(question[:LONGEST_QUESTION])
    golds = _trees(left)
    parts = [part for tree in golds for part in tree.subtrees()]
    own = {signs for part in parts for signs in _signs(part)}
    shapes = set(map(shape, parts))
    if _to_be_rewritten(right, left, question) or _unsolved(right, left, formulas):
        return True

    def is_copy(tree: Tree) -> bool:
        if tree.head in ("=", "\\approx") and not any(gold.head == "=" for gold in golds):
            sides = [side for side in tree.parts if not is_name(side)]
            return bool(sides) and all(is_copy(side) or _unfinished(side, golds) for side in sides)
        if tree.head in COLLECTIONS and not _is_normal(tree):
            return any(map(is_copy, tree.parts))
        signs = _signs(tree) - own
        if _is_normal(tree):
            return len(formulas) == 1 and not signs.isdisjoint(formulas[0].signs)
        return any(
            not signs.isdisjoint(formula.signs)
            or (shape(tree) in formula.shapes and shape(tree) not in shapes)
            or (_signs(tree) == signs and any(map(_is_part(tree), formula.parts)))
            for formula in formulas
        )

    return any(map(is_copy, _trees(right)))


def _to_be_rewritten(answer: str, gold: str, question: str) -> bool:
    """Whether an answer is what the question asks to write in another way: `Write 3/5 as ...`."""
    found = _REWRITTEN.findall(question[:LONGEST_QUESTION]) if answer else []
    texts = [tidy(text) for text in found]
    forms = {form for text in texts for form in _forms(text)}
    if not forms or not forms.isdisjoint(_forms(gold)):
        return False
    return all(not forms.isdisjoint(_forms(side)) for side in answer.split("="))


def _forms(text: str) -> set[str]:
    """A text as it is written, in any order, without the name of a value and the zeros around a
    decimal."""
    if (tree := _tree(_DECIMAL.sub(r"\1.\2", text))) is None:
        return set()
    named = tree.head == "=" and len(tree.parts) == 2 and is_name(tree.parts[0])
    return {tree.parts[1].form if named else tree.form}


def _unsolved(answer: str, gold: str, formulas: tuple["_Formula", ...]) -> bool:
    """Whether an answer is an equation of the question that the gold is not; or any but the gold,
    where the gold is solved for a symbol and the question has an equation of the same symbols."""
    tree, right, solved = _tree(answer), _tree(gold), isinstance(reading(gold), Named)
    if tree is None or right is None or not isinstance(reading(answer), Chain):
        return False
    equations = [part for each in formulas for part in each.parts if part.head == "="]
    return shape(tree) != shape(right) and any(
        shape(tree) == shape(each) or (solved and _symbols(tree) == _symbols(each))
        for each in equations
    )


def _symbols(tree: Tree) -> set[str]:
    return {part.head for part in tree.subtrees() if is_name(part) and not part.parts}


def _tree(text: str) -> Tree | None:
    with contextlib.suppress(UnreadableError, RecursionError):
        return tree_of(text)


def _trees(text: str) -> list[Tree]:
    """What a text says, and as it is written if that is an inequality: |x| < 1 is an interval."""
    found: list[Tree] = []
    if balanced(text) and 0 < len(text) <= LONGEST:
        with contextlib.suppress(UnreadableError, RecursionError):
            node = reading(text)
            found += [written(node)] if node is not None else []
            tree = tree_of(text)
            found += [tree] if tree.head in ("<", "<=", "!=") else []
    return found


def _unfinished(side: Tree, golds: list[Tree]) -> bool:
    with contextlib.suppress(UndecidedError):
        return any(leaves_work(side, gold, algebra=False) for gold in golds[:1])
    return False


def without_asked(answer: str, gold: str, question: str) -> str:
    """`204` of the answer `m+n = 204` to a question that holds `m+n` by itself; any other answer
    as it stands. A gold that is a relation itself needs both sides."""
    if "=" not in answer or not question or _RELATION.search(gold) or len(answer) > LONGEST:
        return answer
    text = tidy(answer)
    if not balanced(answer) or not (sides := _sides(text)):
        return answer
    asked = frozenset[str]().union(*(each.alone for each in _formulas(question[:LONGEST_QUESTION])))
    left = [
        side
        for side in sides
        if flat(side) not in asked and not any(tree.form in asked for tree in _trees(side))
    ]
    if len(left) == len(sides) or all(is_name(tree) for side in left for tree in _trees(side)):
        return answer
    return " = ".join(left).replace(OPEN, "\\text{").replace(CLOSE, "}").replace(ROW, "\\\\")


def _sides(text: str) -> list[str]:
    with contextlib.suppress(UnreadableError):
        sides, signs = split(text, {"=", ",", ";", "and", "or", "<", ">", "\\approx"})
        return sides if set(signs) == {"="} and "" not in sides else []
    return []


class _Formula(NamedTuple):
    parts: tuple[Tree, ...]
    signs: frozenset[Signs]
    shapes: frozenset[str]
    """Of each of its parts."""
    alone: frozenset[str]
    """The form of the whole, if it is no relation; of the value that a symbol has."""


@lru_cache(maxsize=1024)
def _formulas(question: str) -> tuple[_Formula, ...]:
    texts = [next(filter(None, match.groups())) for match in _FORMULA.finditer(question)]
    texts += [
        piece.strip(" .,:'\"()-") and piece
        for piece in _WORDS.split(_FORMULA.sub(" and ", question))
    ]
    found: list[_Formula] = []
    for text in texts:
        formula = tidy(text) if len(text) <= LONGEST else ""
        if formula:
            trees = [*_trees(formula), *filter(None, [_tree(formula)])]
            parts = tuple(part for tree in trees for part in tree.subtrees())
            whole = trees[-1:]
            if whole and whole[0].head == "=":
                sides = whole[0].parts
                whole = list(sides[1:]) if sides and is_name(sides[0]) else []
            forms = [tree.form for tree in whole if not is_number(tree) and not is_name(tree)]
            if whole == trees[-1:] and not number(formula) and len(letters(formula)) > 1:
                forms.append(flat(formula))  # ab, [ABC]
            signs = frozenset[Signs]().union(*map(_signs, parts))
            found.append(_Formula(parts, signs, frozenset(map(shape, parts)), frozenset(forms)))
    return tuple(found)


@lru_cache(maxsize=8192)
def _signs(tree: Tree) -> frozenset[Signs]:
    """The signs of a formula, with 0.5 as 5/10 and as 1/2."""
    kinds = (_leaves(tree, lowest) for lowest in (False, True))
    return frozenset(frozenset(kind.items()) for kind in kinds if kind)


@lru_cache(maxsize=8192)
def _leaves(tree: Tree, lowest: bool) -> Counter[str]:
    """The symbols, numbers and functions of a tree, without signs, 0, factors 1 and what stands
    above and below; divisors are marked. Powers are products and roots powers; a sum over a divisor
    is the sum of its quotients, and a ratio a quotient."""
    if tree.head in ("+", "=", ",") or (tree.head == ":" and len(tree.parts) != 2):
        return _sum(_leaves(part, lowest) or _one(part) for part in tree.parts)
    if tree.head == ":":
        return _leaves(Tree("/", tree.parts), lowest)
    counts = Counter(each for each in powers(tree) if rational(each[0]) != 1)
    for (base, power), count in counts.items():
        both = min(count, counts.get((base, -power), 0))
        counts.update({(base, power): -both, (base, -power): -both} if both > 0 else {})
    factors = list(counts.elements())
    above = [each for each in factors if each[1] > 0]
    if any(rational(base) == 0 for base, _ in above):
        return Counter()
    if len(above) == 1 < len(factors) and above[0][0].head == "+" and above[0][1] == 1:
        below = [Tree("^", (base, Tree(str(power)))) for base, power in factors if power < 0]
        return _sum(_leaves(Tree("*", (term, *below)), lowest) for term in above[0][0].parts)
    found: Counter[str] = Counter()
    for base, power in factors:
        if base is tree and tree.parts:
            inner = Counter({tree.head: 1}) + _sum(_leaves(part, lowest) for part in tree.parts)
        else:
            inner = _leaves(base, lowest) if base.parts else _number(base.head, lowest)
        times, index = abs(power.numerator), power.denominator
        for sign, count in inner.items():
            sign = f"1/{sign}".removeprefix("1/1/") if power < 0 else sign
            found[sign] += count * min(times, _HIGHEST)
        if index > 1 or times > _HIGHEST:
            found[f"^{times if times > _HIGHEST else 1}/{index}"] += len(inner) or 1
    return found


def _one(term: Tree) -> Counter[str]:
    return Counter() if any(rational(base) == 0 for base, _ in powers(term)) else Counter(["1"])


def _sum(counters: Iterator[Counter[str]]) -> Counter[str]:
    total = Counter[str]()
    for each in counters:
        total.update(each)
    return total


def _number(text: str, lowest: bool) -> Counter[str]:
    """A symbol; or the numerator and denominator of a number, without 1. The denominator of a
    decimal is a power of 10, or in `lowest` terms."""
    value = number(text)
    if value is None:
        return Counter([text])
    above, below = value.numerator, value.denominator
    tens = next((10**n for n in range(1, 30) if 10**n % below == 0), 0)
    if tens and below > 1 and not lowest and "frac" not in text and "/" not in text:
        above, below = above * tens // below, tens
    parts = (str(abs(above)), f"1/{below}")
    return Counter(part for part in parts if part not in ("0", "1", "1/1"))


def _is_part(tree: Tree) -> Callable[[Tree], bool]:
    """Whether another tree is a sum or product of this one's terms or factors, and of more."""
    pieces = _pieces(tree)
    return lambda whole: len(pieces) > 1 and whole.head == tree.head and pieces <= _pieces(whole)


def _pieces(tree: Tree) -> Counter[Signs]:
    if tree.head not in ("+", "*"):
        return Counter()
    return Counter(frozenset(_leaves(part, False).items()) for part in tree.parts)


def _is_normal(tree: Tree) -> bool:
    """A symbol, or a number that nothing can be done with: no `\\frac{6}{4}`. Lists, intervals and
    relations of them are, too."""
    if tree.head == "/" and rational(tree) is not None:
        above, below = (part.head for part in tree.parts)
        return above.isdigit() and below.isdigit() and gcd(int(above), int(below)) == 1
    return all(map(_is_normal, tree.parts)) and (
        not tree.parts or tree.head in (*COLLECTIONS, "-", "%", "=", "<", "<=", "!=")
    )

"""Detect answers copied from the question: the rule `copy` of tests/rewards/rules.md."""

import contextlib
import re
from functools import lru_cache
from math import gcd
from typing import NamedTuple

from ictcli.rewards.maths.compare import LONGEST, content, reading
from ictcli.rewards.maths.finished import COLLECTIONS, is_name, leaves_work, written
from ictcli.rewards.maths.latex import FUNCTIONS, balanced, flat, tidy
from ictcli.rewards.maths.nodes import Chain, Named, UndecidedError, UnreadableError
from ictcli.rewards.maths.reader import tree_of
from ictcli.rewards.maths.trees import Tree, rational, shape

LONGEST_QUESTION = 20_000
"""Maximum number of characters of a question that are searched."""

_RELATION = re.compile(r"[=<>]|\\(?:le|ge|ne|in|approx|equiv)(?![a-z])")
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
"""Matches `Write 3/5 as`; the group is `3/5`."""
_DECIMAL = re.compile(r"(?<![\d.])0*(\d*)\.(\d+?)0*(?!\d)")


def copied(answer: str, gold: str, question: str) -> bool:
    """Return whether an answer is a formula of the question or a part of one, in any order and
    notation, and the gold is not. A symbol or reduced number must be the sole formula."""
    right, left = tidy(answer), tidy(content(gold))
    if flat(right) == flat(left):
        return False
    formulas = _formulas(question[:LONGEST_QUESTION])
    golds = _trees(left)
    parts = [part for tree in golds for part in tree.subtrees()]
    gold_shapes = frozenset[str]().union(*map(_shapes, parts))
    if _to_be_rewritten(right, left, question) or _unsolved(right, left, formulas):
        return True

    def is_copy(tree: Tree) -> bool:
        if tree.head in ("=", "\\approx") and not any(gold.head == "=" for gold in golds):
            sides = [side for side in tree.parts if not is_name(side)]
            return bool(sides) and all(is_copy(side) or _unfinished(side, golds) for side in sides)
        if tree.head in COLLECTIONS and not _is_normal(tree):
            return any(map(is_copy, tree.parts))
        shapes = _shapes(tree) - gold_shapes
        if _is_normal(tree):
            return len(formulas) == 1 and not shapes.isdisjoint(formulas[0].shapes)
        return any(not shapes.isdisjoint(formula.shapes) for formula in formulas)

    return any(map(is_copy, _trees(right)))


def _to_be_rewritten(answer: str, gold: str, question: str) -> bool:
    """Return whether an answer is what the question asks to rewrite: 3/5 in `Write 3/5 as ...`."""
    matches = _REWRITTEN.findall(question[:LONGEST_QUESTION]) if answer else []
    texts = [tidy(text) for text in matches]
    forms = {form for text in texts for form in _forms(text)}
    if not forms or not forms.isdisjoint(_forms(gold)):
        return False
    return all(not forms.isdisjoint(_forms(side)) for side in answer.split("="))


def _forms(text: str) -> set[str]:
    """Return a set with the `Tree.form` of a text, ignoring a name before `=` and zeros around a
    decimal; an empty set if the text cannot be parsed."""
    if (tree := _tree(_DECIMAL.sub(r"\1.\2", text))) is None:
        return set()
    named = tree.head == "=" and len(tree.parts) == 2 and is_name(tree.parts[0])
    return {tree.parts[1].form if named else tree.form}


def _unsolved(answer: str, gold: str, formulas: tuple["_Formula", ...]) -> bool:
    """Return whether an answer is an equation of the question, and not the gold. If the gold is
    solved for a symbol, an equation in the symbols of an equation of the question counts too."""
    tree, right, solved = _tree(answer), _tree(gold), isinstance(reading(gold), Named)
    if tree is None or right is None or not isinstance(reading(answer), Chain):
        return False
    equations = [part for formula in formulas for part in formula.parts if part.head == "="]
    return shape(tree) != shape(right) and any(
        shape(tree) == shape(other) or (solved and _symbols(tree) == _symbols(other))
        for other in equations
    )


def _symbols(tree: Tree) -> set[str]:
    return {part.head for part in tree.subtrees() if is_name(part) and not part.parts}


def _tree(text: str) -> Tree | None:
    with contextlib.suppress(UnreadableError, RecursionError):
        return tree_of(text)


def _trees(text: str) -> list[Tree]:
    """Return the trees of a text: as parsed, and an inequality (parsed as a range) as written."""
    trees: list[Tree] = []
    if balanced(text) and 0 < len(text) <= LONGEST:
        with contextlib.suppress(UnreadableError, RecursionError):
            node = reading(text)
            trees += [written(node)] if node is not None else []
            tree = tree_of(text)
            trees += [tree] if tree.head in ("<", "<=", "!=") else []
    return trees


def _unfinished(side: Tree, golds: list[Tree]) -> bool:
    with contextlib.suppress(UndecidedError):
        return any(leaves_work(side, gold, algebra=False) for gold in golds[:1])
    return False


def without_asked(answer: str, gold: str, question: str) -> str:
    """Return `204` for the answer `m+n = 204` if the question has `m+n` by itself and the gold is
    not a relation; any other answer unchanged."""
    asked, _, value = answer.partition("=")
    asked = _spaced(asked)
    if not value or not re.search("[A-Za-z]", asked) or _RELATION.search(gold):
        return answer
    alone = rf"(?<![\w+\-*/^={{\\]){re.escape(asked)}(?![\w+\-*/^={{(])"
    return value.strip() if re.search(alone, _spaced(question[:LONGEST_QUESTION])) else answer


def _spaced(text: str) -> str:
    """Return a text without the spaces around signs."""
    return re.sub(r"\s*([^\w\s])\s*", r"\1", text).strip()


class _Formula(NamedTuple):
    parts: tuple[Tree, ...]
    shapes: frozenset[str]
    """The results of `_shapes` for all parts."""


@lru_cache(maxsize=1024)
def _formulas(question: str) -> tuple[_Formula, ...]:
    texts = [next(filter(None, match.groups())) for match in _FORMULA.finditer(question)]
    texts += [
        piece.strip(" .,:'\"()-") and piece
        for piece in _WORDS.split(_FORMULA.sub(" and ", question))
    ]
    formulas: list[_Formula] = []
    for text in texts:
        formula = tidy(text) if len(text) <= LONGEST else ""
        if formula:
            trees = [*_trees(formula), *filter(None, [_tree(formula)])]
            parts = tuple(part for tree in trees for part in tree.subtrees())
            shapes = frozenset[str]().union(*map(_shapes, parts))
            formulas.append(_Formula(parts, shapes))
    return tuple(formulas)


def _shapes(tree: Tree) -> frozenset[str]:
    """Return a formula's `shape`; for a number its `form`, for a decimal also its fraction's."""
    if rational(tree) is None:
        return frozenset((shape(tree),))
    decimal = _DECIMAL.fullmatch(tree.head)
    fraction = decimal and Tree(
        "/", (Tree(decimal[1] + decimal[2]), Tree(f"1{'0' * len(decimal[2])}"))
    )
    return frozenset(number.form for number in (tree, fraction) if number)


def _is_normal(tree: Tree) -> bool:
    """Return whether a tree is a symbol, a number in normal form (not `\\frac{6}{4}`), or a list,
    interval or relation of these."""
    if tree.head == "/" and rational(tree) is not None:
        above, below = (part.head for part in tree.parts)
        return above.isdigit() and below.isdigit() and gcd(int(above), int(below)) == 1
    return all(map(_is_normal, tree.parts)) and (
        not tree.parts or tree.head in (*COLLECTIONS, "-", "%", "=", "<", "<=", "!=")
    )

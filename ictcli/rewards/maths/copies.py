"""Whether an answer that equals the gold is a formula of the question: the rule `copy` of
docs/verifier.md."""

import contextlib
import re
from collections import Counter
from functools import lru_cache
from math import gcd

from ictcli.rewards.maths.compare import LONGEST, content, reading
from ictcli.rewards.maths.finished import rational, written
from ictcli.rewards.maths.latex import FUNCTIONS, balanced, flat, tidy
from ictcli.rewards.maths.nodes import MalformedError
from ictcli.rewards.maths.trees import Tree, factors_of, tree_of

LONGEST_QUESTION = 20_000
"""Characters of a question that are searched."""

_COLLECTIONS = {"-", "%", ",", "()", "[]", "[)", "(]", "{}", "=", "<", "<=", "!=", "\\cup"}
_FORMULA = re.compile(
    r"\$\$(.+?)\$\$|(?<!\\)\$(.+?)(?<!\\)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]"
    r"|(\\begin\{(?:align|equation|gather|eqnarray)\*?\}.+?\\end\{(?:align|equation|gather|eqnarray)\*?\})",
    re.S,
)
_WORDS = re.compile(
    rf"(?:(?<![\\A-Za-z])(?!(?:{'|'.join(FUNCTIONS)}|sqrt|pi)(?![A-Za-z]))[A-Za-z]{{2,}}"
    r"|(?<![\\\w])[aAI](?=\s+[\w$])|[?!;](?=\s|$)|[.,:](?=\s|$)|\n)+"
)


def copied(answer: str, gold: str, question: str) -> bool:
    """Whether an answer is a formula of the question, or a part of one, up to the order of terms
    and factors, and the gold is not. A number in normal form or a symbol is none, unless the
    question has no other formula."""
    right, left = tidy(answer), tidy(content(gold))
    if flat(right) == flat(left):
        return False
    tree, form = _tree(right), _tree(left)
    formulas = _formulas(question[:LONGEST_QUESTION])
    relation = _relation(right)  # which `_tree` may have solved, as |x| < 1
    if relation and relation.form in {part.form for parts in formulas for part in parts}:
        return not (_is_normal(relation) or relation == _relation(left))
    if tree is None or (form is not None and form.form == tree.form):
        return False
    if _is_normal(tree):
        return len(formulas) == 1 and tree.form in {part.form for part in formulas[0]}
    pieces = _pieces(tree)
    return any(
        part.form == tree.form or (part.head == tree.head and pieces and pieces <= _pieces(part))
        for formula in formulas
        for part in formula
    )


def _relation(text: str) -> Tree | None:
    """An inequality as it is written."""
    with contextlib.suppress(MalformedError, RecursionError):
        if balanced(text) and len(text) <= LONGEST:
            tree = tree_of(text)
            return tree if tree.head in ("<", "<=", "!=") else None
    return None


def _tree(text: str) -> Tree | None:
    node = reading(text) if len(text) <= LONGEST and balanced(text) else None
    try:
        return written(node) if node is not None else None
    except (MalformedError, RecursionError):
        return None


@lru_cache(maxsize=1024)
def _formulas(question: str) -> tuple[tuple[Tree, ...], ...]:
    """Every formula of a question with all its parts."""
    texts = [next(filter(None, match.groups())) for match in _FORMULA.finditer(question)]
    texts += [
        piece.strip(" .,:'\"()-") and piece
        for piece in _WORDS.split(_FORMULA.sub(" and ", question))
    ]
    found: list[tuple[Tree, ...]] = []
    for text in texts:
        formula = tidy(text) if len(text) <= LONGEST else ""
        if not formula:
            continue
        trees = [tree] if (tree := _tree(formula)) else []
        with contextlib.suppress(MalformedError, RecursionError):
            trees.append(tree_of(formula))
        found.append(tuple(part for tree in trees for part in tree.subtrees()))
    return tuple(found)


def _pieces(tree: Tree) -> Counter[str]:
    """The terms of a sum or the factors of a product; empty for anything else."""
    if tree.head == "+":
        return Counter(part.form for part in tree.parts)
    return Counter(factors_of(tree)) if tree.head in ("*", "/") else Counter()


def _is_normal(tree: Tree) -> bool:
    """A symbol, or a number that nothing can be done with: no `\\frac{6}{4}`. Lists, intervals and
    relations of them are, too."""
    if tree.head == "/" and rational(tree) is not None:
        above, below = (part.head for part in tree.parts)
        return above.isdigit() and below.isdigit() and gcd(int(above), int(below)) == 1
    return all(map(_is_normal, tree.parts)) and (tree.head in _COLLECTIONS or not tree.parts)

"""Whether an answer equals the gold: by text and structure first, by algebra where needed."""

from fractions import Fraction
from functools import lru_cache
from typing import Literal

from ictcli.rewards.answers import boxed
from ictcli.rewards.maths.comparison import Comparison
from ictcli.rewards.maths.finished import unfinished
from ictcli.rewards.maths.latex import OPEN, balanced, flat, tidy
from ictcli.rewards.maths.nodes import MalformedError, Named, Node, Scalar, UndecidedError
from ictcli.rewards.maths.numbers import number, plain
from ictcli.rewards.maths.structure import read
from ictcli.rewards.maths.words import folded

__all__ = ["LONGEST", "Outcome", "UndecidedError", "compare", "readable", "value"]

LONGEST = 800
"""Characters of the longest answer that is parsed; a longer one must be the gold verbatim."""

Outcome = Literal["same", "unfinished", "different", "unreadable"]


def readable(gold: str) -> bool:
    """Whether a gold can be parsed, so that answers can be compared with it."""
    gold = content(gold)
    return balanced(gold) and len(gold) <= LONGEST and reading(tidy(gold)) is not None


def content(text: str) -> str:
    """The content of the last box of a gold that has one, or the list of those of its sentence."""
    return (boxed(text) or text) if "boxed" in text or "fbox" in text else text


@lru_cache(maxsize=4096)
def reading(text: str) -> Node | None:
    """The reading of a tidy text; None if it cannot be parsed."""
    try:
        return read(text)
    except (MalformedError, RecursionError):
        return None


def value(text: str) -> Fraction | None:
    """The exact number that a text says, with a unit, a name or a percent sign beside it; else
    None. A percentage of 1 or less is None: it may be the number or its hundredth."""
    node = reading(tidy(text))
    if isinstance(node, Named) and node.optional:
        node = node.value
    if not isinstance(node, Scalar) or (node.unit or "").startswith("?"):
        return None
    exact = number(node.text)
    return None if node.unit == "%" and exact is not None and abs(exact) <= 1 else exact


def compare(answer: str, gold: str, *, algebra: bool) -> Outcome:
    """Whether an answer equals the gold, and is finished as it is. Without `algebra` this is fast
    and safe, and raises UndecidedError if only algebra can tell."""
    gold = content(gold)
    if answer.strip() == gold.strip() and answer.strip():
        return "same"
    exact = plain(answer.strip()), plain(gold.strip())
    if None not in exact:
        return "same" if exact[0] == exact[1] else "different"
    if len(answer) > LONGEST or len(gold) > LONGEST or not balanced(answer) or not balanced(gold):
        return "unreadable"
    left, right = tidy(gold), tidy(answer)
    if not left or not right:
        return "unreadable"
    if flat(left) == flat(right):
        return "same"
    if OPEN in left + right and folded(left) == folded(right) and len(folded(left)) > 1:
        return "same"
    nodes, comparison = (reading(left), reading(right)), Comparison(algebra)
    if nodes[1] is None:
        return "unreadable"
    if nodes[0] is not None and comparison.first_same([(nodes[0], nodes[1])]) is not None:
        left_over = unfinished(nodes[1], nodes[0], algebra=algebra)
        return "unfinished" if left_over else "same"
    return "unreadable" if comparison.unreadable else "different"

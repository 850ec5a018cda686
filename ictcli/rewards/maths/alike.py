"""When names, words and orders stand for one another."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ictcli.rewards.maths.latex import CLOSE, OPEN, flat, letters
from ictcli.rewards.maths.leaves import is_word, simple
from ictcli.rewards.maths.nodes import Chain, Items, Named, Node, Scalar, Words
from ictcli.rewards.maths.shape import read
from ictcli.rewards.maths.units import canonical


def alike(one: str, other: str) -> bool:
    """Whether two names may stand for one another: equal, or y and a function of x."""
    return one == other or {one, other} in ({"y", "f(x)"}, {"y", "g(x)"}, {"y", "h(x)"})


def alike_words(left: str, right: str) -> bool:
    """Whether two answers with words in them are the same but for the words' case and stops."""
    return folded(left) == folded(right) and len(folded(left)) > 1


def folded(text: str) -> str:
    """A tidy text, its words in small letters and without stops; symbols keep their case."""
    text = re.sub(rf"{OPEN}[^{CLOSE}]*{CLOSE}", lambda found: simple(found[0]), text)
    text = re.sub(
        r"(?<![A-Za-z\\])[A-Za-z]{2,}(?![A-Za-z])",
        lambda found: found[0].lower() if is_word(found[0]) else found[0],
        text,
    )
    return flat(text)


def spoken(node: Node) -> str | None:
    """Words without spaces; a scalar's letters, where it is no more than that."""
    if isinstance(node, Words):
        return node.text.replace(" ", "")
    return simple(flat(node.text)).replace(" ", "") if isinstance(node, Scalar) else None


def with_letter(one: Scalar, other: Scalar) -> Scalar:
    """`20 s` as 20 seconds, where the other side is in seconds; else s is a symbol."""
    found = None if one.unit or not other.unit else re.fullmatch(r"(.*\d) ([a-zA-Z])", one.text)
    if found and canonical(found[2]) == other.unit:
        return Scalar(found[1], other.unit)
    return one


def in_order(items: Sequence[Node]) -> Sequence[Node]:
    """`y = 1, x = 2` in the order of the names; anything else as it is."""
    names = [item.name for item in items if isinstance(item, Named)]
    if len(names) < len(items) or len(set(names)) < len(names):
        return items
    return sorted(items, key=lambda item: item.name if isinstance(item, Named) else "")


def without_name(node: Node, name: str) -> Node:
    """`x = 1, x = 2` as `1, 2`, where the name is that one in all of them."""
    if isinstance(node, Items) and not node.brackets:
        named = [item for item in node.items if isinstance(item, Named) and item.name == name]
        if len(named) == len(node.items):
            return Items("", tuple(item.value for item in named))
    return node


def ascending(name: str) -> bool:
    """Whether the names of a tuple, `(x,y)`, stand in their order."""
    parts = name.strip("()").split(",")
    return parts == sorted(parts)


def constant(side: str) -> bool:
    """Whether a side of an equation holds no letters but those of constants and functions."""
    return not letters(side)


def last(chain: Chain) -> Node:
    return read(chain.sides[-1])[0]

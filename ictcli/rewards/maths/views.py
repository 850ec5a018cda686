"""A node in the form that the other side of a comparison asks for."""

import re

from ictcli.rewards.maths import units
from ictcli.rewards.maths.nodes import Items, Named, Node, Scalar, Words
from ictcli.rewards.maths.words import simple


def spoken(node: Node) -> str | None:
    """Words, or a product of letters, without spaces; None for other nodes."""
    if isinstance(node, Words):
        return node.text.replace(" ", "")
    if not isinstance(node, Scalar) or node.unit:
        return None
    letters_only = re.fullmatch(r"[A-Za-z ]+", node.text)
    return simple(letters_only[0]).replace(" ", "") if letters_only else None


def in_hundredths(scalar: Scalar) -> Scalar:
    """A percentage as a number."""
    return Scalar(f"\\frac{{{scalar.text}}}{{100}}") if scalar.unit == "%" else scalar


def of_one_letter(items: Items) -> Items:
    """`x_1 = 1, x_2 = 2` as the list of the values; other items unchanged."""
    named = [item for item in items.items if isinstance(item, Named)]
    letter = {re.sub(r"_\d+$", "", item.name) for item in named}
    if items.brackets != "=" or len(letter) > 1 or not all("_" in item.name for item in named):
        return items
    return Items("", tuple(item.value for item in named))


def with_letter(scalar: Scalar, other: Scalar) -> Scalar:
    """`20 s` as 20 seconds if the other side is in seconds; else s is a symbol."""
    if scalar.unit or not other.unit:
        return scalar
    letter = re.fullmatch(r"(.*\d) ([a-zA-Z])", scalar.text)
    if letter and units.canonical(letter[2]) == other.unit:
        return Scalar(letter[1], other.unit)
    return scalar

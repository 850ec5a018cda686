"""Convert a node to the form in which it can be compared with another node."""

import re

from ictcli.rewards.maths import units
from ictcli.rewards.maths.nodes import Items, Named, Node, Scalar, Words
from ictcli.rewards.maths.words import simple


def spoken(node: Node) -> str | None:
    """Return words, a list of words or a product of letters as text without spaces; else None."""
    if isinstance(node, Words):
        return node.text.replace(" ", "")
    if isinstance(node, Items) and not node.brackets:
        words = [item.text for item in node.items if isinstance(item, Words)]
        return "".join(words).replace(" ", "") if len(words) == len(node.items) else None
    if not isinstance(node, Scalar) or node.unit:
        return None
    letters_only = re.fullmatch(r"[A-Za-z ]+", node.text)
    return simple(letters_only[0]).replace(" ", "") if letters_only else None


def in_hundredths(scalar: Scalar) -> Scalar:
    """Return a percentage p% as p / 100; any other scalar unchanged."""
    return Scalar(f"\\frac{{{scalar.text}}}{{100}}") if scalar.unit == "%" else scalar


def of_one_letter(items: Items) -> Items:
    """Return `x_1 = 1, x_2 = 2` as the list of its values; other items unchanged."""
    named = [item for item in items.items if isinstance(item, Named)]
    letter = {re.sub(r"_\d+$", "", item.name) for item in named}
    if items.brackets != "=" or len(letter) > 1 or not all("_" in item.name for item in named):
        return items
    return Items("", tuple(item.value for item in named))


def assigned(named: Named) -> Items | None:
    """Return `(x, y) = (1, 2)` as x = 1 and y = 2, sorted; None for any other value."""
    names, value = _coordinates(named), named.value
    if not isinstance(value, Items) or value.brackets != "()" or len(value.items) != len(names):
        return None
    by_name = dict(zip(names, value.items, strict=True))
    return Items("=", tuple(Named(name, by_name[name]) for name in sorted(by_name)))


def is_value_alone(named: Named) -> bool:
    """Return whether an answer may leave the name out: coordinates must be complete, in order."""
    if named.name[:1] != "(":
        return named.optional
    names = _coordinates(named)
    ordered = sorted(names, key=lambda name: name.lstrip("\\"))
    return named.optional and names == ordered and _has_coordinates(named.value, len(names))


def _has_coordinates(value: Node, count: int) -> bool:
    if isinstance(value, Items) and value.brackets in ("", "{}"):
        return all(_has_coordinates(item, count) for item in value.items)
    return not isinstance(value, Scalar) and (
        not isinstance(value, Items) or len(value.items) == count
    )


def _coordinates(named: Named) -> list[str]:
    return named.name.strip("()").split(",")


def with_names(items: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return the items with their names no longer optional, unless all have the same name."""
    names = [item.name if isinstance(item, Named) else "" for item in items]
    if len(set(names)) == 1:
        return items
    values = (item.value if isinstance(item, Named) else item for item in items)
    pairs = zip(names, values, strict=True)
    return tuple(Named(name, value, optional=False) if name else value for name, value in pairs)


def with_nouns(items: tuple[Node, ...]) -> tuple[Node, ...] | None:
    """Return numbers named by their nouns: `3 apples, 5 pears`; None if the nouns do not differ."""
    nouns = [item.noun for item in items if isinstance(item, Scalar) and item.noun]
    if len(set(nouns)) < len(items):
        return None
    return tuple(Named(*pair, optional=False) for pair in zip(nouns, items, strict=True))


def with_letter(scalar: Scalar, other: Scalar) -> Scalar:
    """Return `20 s` as 20 seconds if `other` is in seconds; any other scalar unchanged."""
    if scalar.unit or not other.unit:
        return scalar
    letter = re.fullmatch(r"(.*\d) ((?:\\mu )?[a-zA-Z])", scalar.text)
    if letter and units.canonical(letter[2].replace("\\mu ", "µ")) == other.unit:
        return Scalar(letter[1], other.unit)
    return scalar

"""The structure of an answer: lists, tuples, intervals, sets, matrices, relations, and scalars."""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise

from ictcli.rewards.maths.latex import CLOSE, OPEN, ROW
from ictcli.rewards.maths.leaves import based, determinant, ratio, scalar, worded
from ictcli.rewards.maths.nodes import (
    EMPTY,
    REALS,
    Items,
    MalformedError,
    Matrix,
    Named,
    Node,
    Scalar,
    Union,
)
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.relations import relation
from ictcli.rewards.maths.splitting import CLOSING, split, tokens

_PLAIN_JOINT = re.compile(rf"(?<![A-Za-z\\{OPEN}])(?:,\s*)?(?:and|or)(?![A-Za-z])")
_THOUSANDS = re.compile(r"(?<![\d,])\d{1,3}(?:,\d{3})+(?![\d,])")
_CONDITION = re.compile(rf"(?i){OPEN}\s*(?:if|when|for|where)\s*{CLOSE}|^(?:if|when|for)(?![a-z])")
_PREAMBLE = re.compile(rf"(?is)^{OPEN}[^{CLOSE}]*(?:\b(?:is|are|equals|at)|:)\s*{CLOSE}\s*(?=\S)")
_TWISTS = re.compile(
    r"(?i)\b(?:not|half|twice|less|more|negative|square|double|opposite|than|third)\b|n't"
)
_DOMAIN = re.compile(r"(?<=\S)\s*(?:,\s*|\()\s*[a-zA-Z]\s*\\in\s*\\mathbb\{[RZNQ]\}\s*\)?$")
_EMPTY_SET = {"nosolution", "nosolutions", "norealsolution", "norealsolutions", "\\emptyset"}
_ALL_REALS = {
    "allrealnumbers",
    "allreals",
    "allrealnumber",
    "realnumbers",
    "everyrealnumber",
    "\\mathbb{r}",
}


def read(text: str) -> list[Node]:
    """What a tidy text may mean, the likelier first: `1,234` is a number, or else a list."""
    if "\\not" in re.findall(r"\\[a-zA-Z]+", text):
        raise MalformedError("\\not")
    preamble = _PREAMBLE.match(text)
    if preamble and not _TWISTS.search(preamble[0]):
        text = text[preamble.end() :]
    text = _DOMAIN.sub("", text)
    found = [_node(text)]
    if _THOUSANDS.search(text):
        listed = _list(text, {",", ";", "or"})
        if listed is not None:
            found.append(listed)
    return found


def _joined(text: str) -> str:
    """Plain `and` and `or` as text marks; `1, and 2` has one separator."""
    text = _PLAIN_JOINT.sub(f"{OPEN}or{CLOSE}", text)
    return re.sub(rf",\s*(?={OPEN}\s*(?:and|or)\s*{CLOSE})", "", text)


def _list(text: str, at: set[str]) -> Node | None:
    parts, separators = split(_joined(text), at)
    if not separators:
        return None
    if "" in parts:
        raise MalformedError("an empty part")
    items = tuple(_node(part) for part in parts)
    if "or" in separators and all(map(_is_range, items)) and len(set(map(_name, items))) == 1:
        return Union(items)
    return Items("", _pluses(items))


def _is_range(node: Node) -> bool:
    """Whether it is an interval for sure, which a pair in parentheses may not be."""
    if isinstance(node, Named):
        return isinstance(node.value, Items) and node.value.brackets not in ("", "{}")
    return isinstance(node, Items) and any("infty" in _text(item) for item in node.items)


def _name(node: Node) -> str:
    return node.name if isinstance(node, Named) else ""


def _node(text: str) -> Node:
    text = text.strip()
    if not text:
        raise MalformedError("an empty part")
    bare = re.sub(rf"[\s{OPEN}{CLOSE}]", "", text.lower())
    if bare in _EMPTY_SET:
        return EMPTY
    if bare in _ALL_REALS:
        return REALS
    if numeral := based(text):
        return numeral
    hidden = _THOUSANDS.sub(lambda found: found[0].replace(",", "\ue003"), text)
    listed = _list(hidden, {",", ";", "or"})
    if listed is not None:
        return listed
    text = hidden.replace("\ue003", ",")
    for reading in (worded, partial(relation, node=_node), _union, _bracketed, ratio):
        if (found := reading(text)) is not None:
            return found
    return scalar(text, _node)


def _union(text: str) -> Node | None:
    parts, signs = split(text, {"\\cup", "\\setminus"})
    if not signs or "" in parts:
        return None
    nodes = tuple(_node(part) for part in parts)
    if "\\setminus" not in signs:
        return Union(nodes)
    holes = nodes[1] if len(nodes) == 2 and nodes[0] == REALS else None
    if (
        not isinstance(holes, Items)
        or holes.brackets != "{}"
        or any(number(_text(item)) is None for item in holes.items)
    ):
        return None
    ends = sorted(holes.items, key=lambda item: number(_text(item)) or 0)
    ends = [REALS.items[0], *ends, REALS.items[1]]
    return Union(tuple(Items("()", pair) for pair in pairwise(ends)))


def _text(node: Node) -> str:
    return node.text if isinstance(node, Scalar) else ""


def _bracketed(text: str) -> Node | None:
    found = tokens(text)
    first, last = found[0][0], found[-1][0]
    if first.startswith("\\begin{") and last.startswith("\\end{"):
        return _matrix(text, first[7:-1], first, last)
    if label := re.match(r"[A-Z](?=\()", text):
        point = _bracketed(text[label.end() :])
        return point if isinstance(point, Items) else None
    if first not in ("(", "[", "\\{", "\\langle") or last not in CLOSING or len(found) < 2:
        return None
    if any(depth == 0 for _, depth in found[1:-1]):
        return None  # (a)(b)
    inside = text[len(first) : -len(last)].strip()
    if first == "\\{":
        if not inside:
            return EMPTY
        parts, _ = split(_joined(inside), {",", ";", "or"})
        builder, bars = split(inside, {"|", ":"})
        if bars:
            condition = _node(builder[-1]) if len(builder) == 2 else None
            ranged = isinstance(condition, Named) and condition.name == builder[0]
            return condition.value if ranged and isinstance(condition, Named) else None
        return Items("{}", _pluses(tuple(_node(part) for part in parts)))
    kind = "()" if first == "\\langle" else first + last
    parts, signs = split(inside, {",", ";"})
    if "" in parts:
        raise MalformedError("an empty part")
    if not signs:
        one = _node(inside)
        return one if kind == "()" or isinstance(one, Matrix) else None
    return Items(kind, tuple(_node(part) for part in parts))


def _matrix(text: str, environment: str, first: str, last: str) -> Node | None:
    inside = text[len(first) : -len(last)]
    if environment == "array":
        inside = re.sub(r"^\s*\{[^{}]*\}", "", inside)
    rows, _ = split(inside, {ROW})
    cells = [split(row, {"&"})[0] for row in rows if row]
    if not cells or (any("" in row for row in cells) and environment != "cases"):
        raise MalformedError("an empty cell")
    if environment == "vmatrix":
        square = all(len(row) == len(cells) for row in cells) and len(cells) < 5
        return Scalar(determinant(cells)) if square else None
    kind = environment if environment in ("cases", "Vmatrix") else ""
    if kind == "cases":
        cells = [[_CONDITION.sub("", cell).strip(" ,.;") for cell in row if cell] for row in cells]
    return Matrix(kind, tuple(tuple(_node(cell) for cell in row) for row in cells))


def _pluses(items: tuple[Node, ...]) -> tuple[Node, ...]:
    """Items, those with a \\pm written out."""
    out: list[Node] = []
    for item in items:
        expanded = expand(item)
        out.extend(
            expanded.items if isinstance(expanded, Items) and not expanded.brackets else [item]
        )
    return tuple(out)


def expand(node: Node) -> Node:
    """`a \\pm b` as the list of both; other nodes as they are."""
    if not isinstance(node, Scalar) or not re.search(r"\\(?:pm|mp)(?![a-zA-Z])", node.text):
        return node
    both: list[Node] = []
    for plus, minus in (("+", "-"), ("-", "+")):
        text = re.sub(r"\\pm(?![a-zA-Z])\s*", plus, node.text)
        text = re.sub(r"\\mp(?![a-zA-Z])\s*", minus, text)
        both.append(Scalar(text.lstrip("+ "), node.unit))
    return Items("", tuple(both))

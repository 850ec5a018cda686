"""Parse LaTeX into nodes: lists, tuples, intervals, sets, matrices, relations and scalars."""

import re
from collections.abc import Iterable
from functools import partial

from ictcli.rewards.maths.latex import CLOSE, OPEN, ROW
from ictcli.rewards.maths.nodes import (
    CLOSING,
    EMPTY,
    REALS,
    Exact,
    Items,
    Matrix,
    Named,
    Nearly,
    Node,
    Ratio,
    Scalar,
    Union,
    UnreadableError,
    Words,
    expand,
    split,
    tokens,
    unnamed,
)
from ictcli.rewards.maths.numbers import based
from ictcli.rewards.maths.relations import relation
from ictcli.rewards.maths.units import split_unit, unknown_words
from ictcli.rewards.maths.words import simple, unmarked_letters, without_lead, worded

_PLAIN_JOINT = re.compile(rf"(?<![A-Za-z\\{OPEN}])(?:,\s*)?(and|or)(?![A-Za-z])")
_FACTOR = re.compile(r"(?s)((?:(?!\\begin|[=<>,;]).)+?)\s*(?:\\cdot|\*)?\s*(?=\\begin\{)")
_THING_JOINT = re.compile(rf"({OPEN}[^{CLOSE}]*\S)\s+(and|or)\s*{CLOSE}")
_THOUSANDS = re.compile(r"(?<![\d,])\d{1,3}(?:,\d{3})+(?![\d,])")
_CONDITION = re.compile(rf"(?i){OPEN}\s*(?:if|when|for|where)\s*{CLOSE}|^(?:if|when|for)(?![a-z])")
_EMPTY_SET = {"nosolution", "nosolutions", "norealsolution", "norealsolutions", "\\emptyset"}
_ALL_REALS = {
    *("allrealnumbers", "allreals", "allrealnumber", "realnumbers", "everyrealnumber"),
    "\\mathbb{r}",
}
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}|\\(?:mid|to)\b")
_HOUR = re.compile(
    rf"(?i){OPEN}?([01]?\d|2[0-4])(?:\s*:\s*([0-5]\d))?\s*{OPEN}?\s*([ap])\.?m\.?\s*{CLOSE}?"
)
_DEGREES = re.compile(rf"(\d+(?:\.\d+)?|[a-zA-Z]|\\(?:theta|alpha|beta))\s*{OPEN}degrees{CLOSE}")


def read(text: str) -> Node:
    """Parse normalized LaTeX into a node; `1,234` is a number. UnreadableError if that fails."""
    if "\\not" in re.findall(r"\\[a-zA-Z]+", text):
        raise UnreadableError("\\not")
    return _node(without_lead(text))


def _joined(text: str) -> str:
    """Return `text` with `and` and `or` marked as text, and without a comma before them."""
    text = _THING_JOINT.sub(rf"\1{CLOSE}{OPEN}\2{CLOSE}", text)
    text = _PLAIN_JOINT.sub(rf"{OPEN}\1{CLOSE}", text)
    return re.sub(rf",\s*(?={OPEN}\s*(?:and|or)\s*{CLOSE})", "", text)


def _list(text: str) -> Node | None:
    text = _joined(text)
    parts, separators = split(text, {",", ";", "and", "or"})
    if not separators:
        return None
    if "" in parts:
        raise UnreadableError("an empty part")
    items = tuple(map(_node, parts))
    named = [item for item in items if isinstance(item, Named)]
    names = {item.name for item in named}
    if all(map(_is_range, items)) and len(names) <= 1 and len(named) in (0, len(items)):
        if "or" in separators:
            return Union(items) if set(separators) <= {"or", ","} else Scalar(text)
        if "and" in separators:
            return Scalar(text)
    if not named:
        return Items("", _pluses(items))
    if len(names) == 1 and items[0] in named and len(named) in (1, len(items)):
        return Named(named[0].name, Items("", _pluses(map(unnamed, items))), named[0].optional)
    if len(names) == len(items) and "or" not in separators:
        by_name = {item.name: item for item in named}
        return Items("=", tuple(by_name[name] for name in sorted(by_name)))
    return Scalar(text)


def _is_range(node: Node) -> bool:
    """Return whether a node is certainly an interval; a pair in parentheses may be a point."""
    if isinstance(node, Named):
        brackets = node.value.brackets if isinstance(node.value, Items) else ""
        return node.name[:1] != "(" and brackets not in ("", "{}")
    return isinstance(node, Items) and any("infty" in _text(item) for item in node.items)


def _node(text: str) -> Node:
    text = text.strip()
    if not text:
        raise UnreadableError("an empty part")
    text = unmarked_letters(text)
    if hour := _HOUR.fullmatch(text):
        return Words(f"{int(hour[1])}:{hour[2] or '00'} {hour[3].lower()}m")
    bare = re.sub(rf"[\s{OPEN}{CLOSE}]", "", text.lower()).rstrip(".!")
    if bare in _EMPTY_SET:
        return EMPTY
    if bare in _ALL_REALS:
        return REALS
    if numeral := based(text):
        return numeral
    hidden = _THOUSANDS.sub(lambda match: match[0].replace(",", "\ue003"), text)
    if (items := _list(hidden)) is not None:
        return items
    text = hidden.replace("\ue003", ",")
    for reader in (worded, partial(relation, node=_node), _union, _bracketed, ratio):
        if (node := reader(text)) is not None:
            return node
    return scalar(text)


def _union(text: str) -> Node | None:
    text = re.sub(r"\\cup\s*\{([^{}]*)\}", r"\\cup\\{\1\\}", text)
    if hole := re.fullmatch(r"\\mathbb\{R\}\s*(?:-|\\setminus)\s*\\?\{([^{},]+)\\?\}", text):
        low, high = REALS.items
        end = _node(hole[1].rstrip("\\"))
        return Union((Items("()", (low, end)), Items("()", (end, high))))
    parts, signs = split(text, {"\\cup"})
    return Union(tuple(map(_node, parts))) if signs and "" not in parts else None


def _text(node: Node) -> str:
    return node.text if isinstance(node, Scalar) else ""


def _bracketed(text: str) -> Node | None:
    signs = tokens(text)
    first, last = signs[0][0], signs[-1][0]
    if first.startswith("\\begin{") and last.startswith("\\end{"):
        return _matrix(text, first[7:-1], first, last)
    if last.startswith("\\end{") and (factor := _FACTOR.match(text)):
        matrix = _bracketed(text[factor.end() :])
        return _multiplied(factor[1], matrix) if isinstance(matrix, Matrix) else None
    if label := re.match(r"[A-Z](?=\()", text):
        point = _bracketed(text[label.end() :])
        return Named(label[0], point) if isinstance(point, Items) else None
    if first not in ("(", "[", "\\{", "\\langle") or last not in CLOSING:
        return None
    if any(depth == 0 for _, depth in signs[1:-1]):
        return None  # a product, (a)(b)
    inside = text[len(first) : -len(last)].strip()
    if first == "\\{":
        if not inside:
            return EMPTY
        builder, bars = split(inside, {"|", ":"})
        if bars:
            unknown = re.sub(r"\s*\\in\s*\\mathbb\{R\}$", "", builder[0])
            node = _node(builder[1]) if len(builder) == 2 else None
            parts = node.parts if isinstance(node, Union) else (node,)
            named = [part for part in parts if isinstance(part, Named) and part.name == unknown]
            ranges = [part for part in named if isinstance(part.value, Items | Union)]
            return node if len(ranges) == len(parts) else None
        parts, _ = split(_joined(inside), {",", ";", "and", "or"})
        return Items("{}", _pluses(map(_node, parts)))
    kind = "()" if first == "\\langle" else first + last
    parts, separators = split(inside, {",", ";"})
    if "" in parts:
        raise UnreadableError("an empty part")
    if not separators:
        node = _node(inside)
        alone = (first, last) == ("(", ")") or isinstance(node, Matrix)
        return node if alone else Items(kind, (node,))
    return Items(kind, tuple(map(_node, parts)))


def _matrix(text: str, environment: str, first: str, last: str) -> Node | None:
    inside = text[len(first) : -len(last)]
    if environment == "array":
        inside = re.sub(r"^\s*\{[^{}]*\}", "", inside)
    rows, _ = split(inside, {ROW})
    cells = [split(row, {"&"})[0] for row in rows if row]
    if not cells or (any("" in row for row in cells) and environment != "cases"):
        raise UnreadableError("an empty cell")
    kind = environment if environment in ("cases", "vmatrix", "Vmatrix") else ""
    if kind == "cases":
        cells = [[_CONDITION.sub("", cell).strip(" ,.;") for cell in row if cell] for row in cells]
    return Matrix(kind, tuple(tuple(_node(cell) for cell in row) for row in cells))


def _multiplied(factor: str, matrix: Matrix) -> Matrix | None:
    cells = [cell for row in matrix.rows for cell in row]
    if matrix.kind or not all(isinstance(cell, Scalar) and not cell.unit for cell in cells):
        return None
    factor = f"{factor}1" if factor in ("", "+", "-") else factor
    rows = (tuple(_node(f"({factor})({_text(cell)})") for cell in row) for row in matrix.rows)
    return Matrix("", tuple(rows))


def _pluses(items: Iterable[Node]) -> tuple[Node, ...]:
    """Return the items, with each `a \\pm b` replaced by its two values."""
    out: list[Node] = []
    for item in map(expand, items):
        out.extend(item.items if isinstance(item, Items) and not item.brackets else [item])
    return tuple(out)


def ratio(text: str) -> Ratio | None:
    """Return `a : b` or `a to b` as a ratio; None for other texts."""
    text, words = re.subn(
        rf"(?<=[\d\s])(?:{OPEN}\s*to\s*{CLOSE}|(?<=\s)to(?=\s))(?=[\s\d])", ":", text
    )
    parts, signs = split(text.replace("{:}", ":"), {":"})
    if not signs or "" in parts or any(OPEN in part or _WORD.search(part) for part in parts):
        return None
    return Ratio(tuple(parts), colon=not words)


def scalar(text: str) -> Node:
    """Return the node of an expression with its unit or percent sign."""
    if re.search(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])", text):
        text = _DEGREES.sub(r"(\1\\cdot\\frac{\\pi}{180})", text)
    value, unit, noun = split_unit(text)
    if value != text:
        inner = _node(value)
        if isinstance(inner, Scalar):
            both = inner.unit and unit
            return Scalar(text) if both else Scalar(inner.text, unit or inner.unit, noun)
        if isinstance(inner, Items | Nearly | Exact):
            return inner
    if percent := re.fullmatch(r"(.*[^\s])\s*%", value):
        return Scalar(percent[1], "%")
    if unit is None and (unknown := unknown_words(text)) is not None:
        value, words = unknown
        if isinstance(_node(value), Ratio):  # a time of day
            return Words(simple(text))
        return Scalar(value, f"?{simple(words)}")
    return Scalar(value, unit)

"""Whether an answer that equals the gold is finished as the gold is: the rule `form` of
docs/verifier.md."""

import re
from fractions import Fraction
from functools import lru_cache
from math import isqrt

from ictcli.rewards.maths.latex import FUNCTIONS, GREEK
from ictcli.rewards.maths.nodes import (
    Chain,
    Inequality,
    Items,
    MalformedError,
    Matrix,
    Named,
    Nearly,
    Node,
    Ratio,
    Scalar,
    Union,
)
from ictcli.rewards.maths.numbers import number, plain
from ictcli.rewards.maths.trees import OPERATORS, Tree, tree_of
from ictcli.rewards.maths.views import with_letter

_KINDS = {
    **dict.fromkeys(("!", "\\binom", "\\gcd", "\\lcm", "\\max", "\\min", "\\det"), "arithmetic"),
    **dict.fromkeys(("||", "\\lfloor\\rfloor", "\\lceil\\rceil"), "arithmetic"),
    **dict.fromkeys(("\\sin", "\\cos", "\\tan", "\\cot", "\\sec", "\\csc"), "sine"),
    **dict.fromkeys(("\\ln", "\\log", "\\lg"), "logarithm"),
    **dict.fromkeys(OPERATORS, "operator"),
    "\\sqrt": "root",
}
"""The kind of work that an operation on numbers leaves; other functions are kinds of their own."""
UNKNOWN = "?"
"""Before an unknown, as a kind of work: it cancels if the gold does not have it."""
_NUMBERS = {"\\pi", "e", "i", "\\infty", ""}
_LETTER = re.compile(rf"[A-Za-z]|\\(?:{'|'.join(GREEK)})")
_PRIMES = [n for n in range(2, 100) if all(n % d for d in range(2, n))]


def unfinished(answer: Node, gold: Node) -> bool:
    """Whether an answer leaves operations to do that the equal gold has done."""
    if isinstance(answer, Scalar) and isinstance(gold, Scalar):
        answer = with_letter(answer, gold)
    try:
        left = _work(written(answer)) - {"power"}
        if not left:
            return False
        form = written(gold)
    except (MalformedError, RecursionError):
        return False
    if isinstance(gold, Named):
        form = Tree("=", (tree_of(gold.name), form))
    allowed = _work(form) | {kind for tree in form.subtrees() for kind in _used(tree)}
    return not left <= allowed and "operator" not in allowed


@lru_cache(maxsize=4096)
def written(node: Node) -> Tree:
    """What a node says, as a tree; names that may be left out are. Raises MalformedError."""
    match node:
        case Scalar(text):
            quotient = "/" in text or "frac" in text
            return tree_of(text) if quotient or number(text) is None else Tree(text)
        case Named(name, value, optional):
            return written(value) if optional else Tree("=", (Tree(name), written(value)))
        case Items(head, parts):
            return Tree(head or ",", tuple(map(written, parts)))
        case Union(parts):
            return Tree("\\cup", tuple(map(written, parts)))
        case Nearly(parts):
            return Tree("\\approx", tuple(map(written, parts)))
        case Matrix(kind, rows):
            return Tree(f"matrix {kind}", tuple(_cell(cell) for row in rows for cell in row))
        case Chain(texts):
            return Tree("=", tuple(map(tree_of, texts)))
        case Ratio(texts):
            return Tree(":", tuple(map(tree_of, texts)))
        case Inequality(left, sign, right):
            return Tree(sign, (tree_of(left), tree_of(right)))
        case _:
            return Tree(f'"{node}"')


def _cell(node: Node) -> Tree:
    """A cell of a matrix; the product with the factor before the matrix, `(2)(x)`, is no work."""
    tree = written(node)
    multiplied = isinstance(node, Scalar) and node.text[:1] == "(" and tree.head == "*"
    return Tree("cell", tree.parts) if multiplied else tree


def _work(tree: Tree) -> set[str]:
    """The kinds of work that a tree leaves. `power`, as in `2^{10}`, is a normal form by itself. Of
    an equation it is what all its sides leave, but names."""
    own, kinds = _own(tree), list(map(_work, tree.parts))
    if tree.head in ("=", "\\approx"):
        kinds = [each for side, each in zip(tree.parts, kinds, strict=True) if not _is_name(side)]
        return set[str].intersection(*kinds) if kinds else set()
    if tree.head in ("<", "<=", "!="):  # 2x < 6 is x < 3
        return {kind for each in kinds for kind in each if kind[0] != UNKNOWN}
    return set[str]().union({own} if own else (), *kinds)


def _used(tree: Tree) -> set[str]:
    """The kinds of work that an answer may leave if the gold has this tree in it."""
    if tree.head == ":" or _own(tree) == "power":
        return {"arithmetic"}
    if tree.head == "^" and (kind := _raised(*tree.parts)) != "arithmetic":
        return {kind}
    kind = _KINDS.get(tree.head, tree.head) if tree.parts else UNKNOWN + tree.head
    return set() if kind == "arithmetic" else {kind}


def _is_name(tree: Tree) -> bool:
    """A symbol, or a product of them: `x`, `AB`, `f(x)`."""
    parts = tree.parts if tree.head == "*" else (tree,)
    return not any(part.parts or _is_number(part) for part in parts)


def _is_number(tree: Tree) -> bool:
    if tree.parts:
        return all(map(_is_number, tree.parts))
    return tree.head in _NUMBERS or not _LETTER.match(tree.head)


def _own(tree: Tree) -> str:
    """The kind of work that the operation at the top of a tree leaves; empty if none."""
    head, parts = tree.head, tree.parts
    if head in OPERATORS or (head in ("+", "*") and any(part.head == "\\dots" for part in parts)):
        return "operator"
    if head == "+":
        likes = [" ".join(sorted(_irrational(part))) for part in parts]
        return "arithmetic" if len(set(likes)) < len(likes) else ""
    if head == "*":
        return "arithmetic" if _multiplied(parts) else ""
    if head == "/":
        return "arithmetic" if _divided(*parts) else ""
    if not parts:
        return "" if _is_number(tree) else UNKNOWN + head  # it may cancel
    if not all(map(_is_number, parts)):
        return ""
    if head == "^":
        return _raised(*parts)
    if head == "\\sqrt" and len(parts) == 1:
        value = plain(parts[0].head)
        square = value is not None and isqrt(int(value)) ** 2 == value
        return "arithmetic" if square else "root"
    return _KINDS.get(head, head if head[1:] in FUNCTIONS and head != "\\exp" else "")


def _raised(base: Tree, exponent: Tree) -> str:
    """`2^{10}` is a normal form, `6^2` and `(\\frac12)^2` are not."""
    value, raised = rational(base), rational(exponent)
    if raised is not None and raised.denominator > 1:
        return "root"
    if base.head == "e":
        return "sine" if any(part.head == "i" for part in exponent.subtrees()) else ""
    if base.head == "\\pi" or (raised is None and value is not None):
        return ""
    return "power" if value in (*_PRIMES, 10) and raised != 0 else "arithmetic"


def _multiplied(factors: tuple[Tree, ...]) -> bool:
    """Whether two factors have numbers, are sums or quotients of them, or are the same symbol."""
    numbers = [factor for factor in factors if _coefficient(factor) is not None]
    symbols = [each.head for each in factors if not each.parts and _LETTER.fullmatch(each.head)]
    sums = [factor for factor in factors if factor.head == "+" and _is_number(factor)]
    quotients = [factor for factor in factors if factor.head == "/" and _is_number(factor)]
    return max(len(sums), len(numbers), len(quotients)) > 1 or len(set(symbols)) < len(symbols)


def _divided(above: Tree, below: Tree) -> bool:
    """Whether numbers divide to a whole number, or are quotients, products or repeating decimals
    themselves."""
    upper, lower = _coefficient(above), _coefficient(below)
    if upper is None or lower is None:
        return False
    if any(
        each.head in ("/", "*") or ("." in each.head[:-1] and "\\" in each.head)
        for each in (upper, lower)
    ):
        return True
    dividend, divisor = rational(upper), rational(lower)
    if dividend is None or not divisor:  # a power
        return False
    return (dividend / divisor).denominator == 1


def _irrational(tree: Tree, power: str = "") -> list[str]:
    """The factors of a term but its numbers: two terms with the same can be added."""
    if tree.head in ("*", "-"):
        return [each for part in tree.parts for each in _irrational(part, power)]
    if tree.head == "/":
        return _irrational(tree.parts[0], power) + _irrational(tree.parts[1], power + "1/")
    if _is_rational(tree):
        return []
    if tree.head == "\\sqrt" and len(tree.parts) == 1 and (inside := plain(tree.parts[0].head)):
        for prime in _PRIMES:
            while inside % prime**2 == 0:
                inside /= prime**2
        return [f"\\sqrt({inside})"]
    return [power + tree.form]


def _coefficient(tree: Tree) -> Tree | None:
    """The number that is a factor of a term, or is the term; None if there is none."""
    if tree.head in ("*", "-"):
        found = [each for part in tree.parts if (each := _coefficient(part)) is not None]
        return found[0] if len(found) == 1 else Tree("*", tuple(found)) if found else None
    if tree.head == "/" and rational(tree) is None:
        above, below = map(_coefficient, tree.parts)
        return Tree("/", (above or Tree("1"), below)) if below else above
    return tree if _is_rational(tree) else None


def _is_rational(tree: Tree) -> bool:
    """A number as it is written, or a whole power of one."""
    if tree.head == "^":
        base, exponent = map(rational, tree.parts)
        return base is not None and exponent is not None and exponent.denominator == 1
    return rational(tree) is not None


def rational(tree: Tree) -> Fraction | None:
    """The value of a number, of a negative number or of a quotient of two."""
    values = [rational(part) for part in tree.parts]
    match tree.head, *values:
        case "-", Fraction() as value:
            return -value
        case "/", Fraction() as above, Fraction() as below if below:
            return above / below
        case _:
            return None if tree.parts else number(tree.head)

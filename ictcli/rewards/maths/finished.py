"""Detect answers less simplified than the gold: the rule `form` of tests/rewards/rules.md.

An answer leaves work undone if it has operations that the equal gold has carried out."""

from fractions import Fraction
from functools import lru_cache
from math import gcd

from ictcli.rewards.maths import nodes
from ictcli.rewards.maths.latex import FUNCTIONS
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.reader import tree_of
from ictcli.rewards.maths.relations import ranges
from ictcli.rewards.maths.terms import LOGARITHMS, PRIMES, has_like_terms, length, meet, primes
from ictcli.rewards.maths.trees import OPERATORS, Tree, is_number, is_rational, powers, rational
from ictcli.rewards.maths.views import with_letter

_KINDS = {
    **dict.fromkeys(("\\gcd", "\\lcm", "\\det"), "arithmetic"),
    **dict.fromkeys(("\\lfloor\\rfloor", "\\lceil\\rceil"), "floor"),
    **dict.fromkeys(("\\sin", "\\cos", "\\tan", "\\cot", "\\sec", "\\csc"), "sine"),
    **dict.fromkeys(("\\sinh", "\\cosh", "\\tanh", "\\exp"), "exponential"),
    **dict.fromkeys(LOGARITHMS, "logarithm"),
    **dict.fromkeys(("||", "\\max", "\\min"), "absolute value"),
    "!": "factorial",
}
"""Kind of work that each operation leaves undone, unless `_top_work` has another rule for it."""
_ON_NUMBERS = {"!", "\\binom", "\\gcd", "\\lcm", "\\max", "\\min", "\\det", "||",
               "\\lfloor\\rfloor", "\\lceil\\rceil"}  # fmt: skip
"""Operations that leave arithmetic undone if they act on numbers."""
UNKNOWN = "?"
"""Prefix that makes a symbol a kind of work: a symbol that the gold lacks should have cancelled."""
COLLECTIONS = {",", "()", "[]", "[)", "(]", "{}", "\\cup", "\\langle\\rangle"}


def unfinished(answer: nodes.Node, gold: nodes.Node, *, algebra: bool) -> bool:
    """Return whether an answer leaves work undone that the equal gold has done. UndecidedError if
    algebra is needed but not allowed."""
    if isinstance(answer, nodes.Scalar) and isinstance(gold, nodes.Scalar):
        answer = with_letter(answer, gold)
    parts = nodes.unnamed(answer)
    if isinstance(parts, nodes.Union) and len(ranges(parts) or parts.parts) < len(parts.parts):
        return True  # two intervals overlap
    try:
        tree, form = written(answer), written(gold)
    except (nodes.UnreadableError, RecursionError):
        return False
    if isinstance(gold, nodes.Named):
        if is_number(form) and isinstance(answer, nodes.Chain):
            return True
        form = Tree("=", (tree_of(gold.name), form))
    return leaves_work(tree, form, algebra=algebra)


def leaves_work(answer: Tree, gold: Tree, *, algebra: bool = True) -> bool:
    """Return whether an answer leaves work undone that the equal gold has done. A list, interval or
    matrix does if any of its items does, an equation if all its sides except names do."""
    if (allowed := _allowed(gold)) is None:
        return False
    parts = answer.parts
    if answer.head in ("=", "\\approx"):
        sides = [side for side in parts if not is_name(side)]
        return bool(sides) and all(leaves_work(side, gold, algebra=algebra) for side in sides)
    if parts and _is_collection(answer):
        return any(leaves_work(part, gold, algebra=algebra) for part in parts)
    if not _work(answer) - {"power"} <= allowed:
        return True
    longest = max(map(length, _values(gold)))
    if is_number(answer):
        spare = answer.form.count("\\sqrt") <= gold.form.count("\\sqrt")
        return answer.head not in (":", "cell") and length(answer) > longest + spare
    if length(answer) <= longest and not (_divides(answer) and not _divides(gold)):
        return False
    if not algebra:
        raise nodes.UndecidedError
    from ictcli.rewards.maths.forms import is_shortest  # imports sympy

    return not is_shortest(answer, longest)


def _divides(tree: Tree) -> bool:
    products = (part for part in tree.subtrees() if part.head in ("*", "/", "^"))
    factors = (factor for part in products for factor in powers(part))
    return any(power < 0 and not is_number(base) for base, power in factors)


def _is_collection(tree: Tree) -> bool:
    return tree.head in COLLECTIONS or tree.head[:6] == "matrix"


def _values(tree: Tree) -> list[Tree]:
    """Return the items of a collection, nested collections flattened; [tree] for any other tree."""
    if tree.parts and _is_collection(tree):
        return [item for part in tree.parts for item in _values(part)]
    return [tree]


@lru_cache(maxsize=4096)
def written(node: nodes.Node) -> Tree:
    """Return a node as a tree, without optional names. UnreadableError if it cannot be parsed."""
    match node:
        case nodes.Scalar(text):
            quotient = "/" in text or "frac" in text
            return tree_of(text) if quotient or number(text) is None else Tree(text)
        case nodes.Named(name, value, optional):
            return written(value) if optional else Tree("=", (Tree(name), written(value)))
        case nodes.Items(head, parts):
            return Tree(head or ",", tuple(map(written, parts)))
        case nodes.Union(parts):
            return Tree("\\cup", tuple(map(written, parts)))
        case nodes.Nearly(parts):
            return Tree("\\approx", tuple(map(written, parts)))
        case nodes.Matrix(kind, rows):
            return Tree(f"matrix {kind}", tuple(_cell(cell) for row in rows for cell in row))
        case nodes.Chain(texts):
            return Tree("=", tuple(map(tree_of, texts)))
        case nodes.Ratio(texts):
            return Tree(":", tuple(map(tree_of, texts)))
        case nodes.Inequality(left, sign, right):
            return Tree(sign, (tree_of(left), tree_of(right)))
        case _:
            return Tree(f'"{node}"')


def _cell(node: nodes.Node) -> Tree:
    """Return a matrix cell as a tree; a product with the matrix's factor, `(2)(x)`, is allowed."""
    tree = written(node)
    multiplied = isinstance(node, nodes.Scalar) and node.text[:1] == "(" and tree.head == "*"
    return Tree("cell", tree.parts) if multiplied else tree


def _work(tree: Tree) -> set[str]:
    """Return the kinds of work that a tree and its subtrees leave undone."""
    top, kinds = _top_work(tree), list(map(_work, tree.parts))
    if tree.head in ("<", "<=", "!="):  # 2x < 6 is x < 3
        return {kind for each in kinds for kind in each if kind[0] != UNKNOWN}
    return set[str]().union({top} if top else (), *kinds)


def _allowed(gold: Tree) -> set[str] | None:
    """Return the kinds of work that answers may omit; None (all) if the gold has a `\\sum`."""
    allowed = set(map(_top_work, gold.subtrees()))
    if "operator" in allowed:
        return None
    if "power" in allowed or any(tree.head == ":" for tree in gold.subtrees()):
        allowed.add("arithmetic")
    return allowed | ({"absolute value"} if "root" in allowed else set())


def is_name(tree: Tree) -> bool:
    """Return whether a tree is a symbol or a product of symbols: `x`, `AB`, `f(x)`."""
    parts = tree.parts if tree.head == "*" else (tree,)
    return not any(part.parts or is_number(part) for part in parts)


def _top_work(tree: Tree) -> str:
    """Return the kind of work that a tree's topmost operation leaves undone; empty if none."""
    head, parts = tree.head, tree.parts
    if head in OPERATORS or (head in ("+", "*") and any(part.head == "\\dots" for part in parts)):
        return "operator"
    if not parts:
        return "" if is_number(tree) else UNKNOWN + head  # it may cancel
    left = False
    match head:
        case "+":
            factors = [part for term in parts for part in (term, *_factors(term))]
            powers_of_numbers = len(parts) > 1 and "power" in map(_top_work, factors)
            zeros = any(rational(part) == 0 for part in parts)
            left = zeros or has_like_terms(parts) or powers_of_numbers
        case "*":
            left = _multiplied(parts) or meet(tree)
        case "/":
            left = _divided(*parts) or meet(tree)
        case ":":
            left = len(parts) == 2 and _divided(*parts)
        case "^":
            return _raised(*parts)
        case "\\sqrt":
            index = rational(parts[1]) if len(parts) > 1 else Fraction(2)
            return _raised(tree.parts[0], Tree(f"1/{index}")) if index else "root"
        case "\\binom" if not is_number(tree):
            if rational(parts[1]) is None:
                return "factorial"
            left = rational(parts[1]) in (0, 1)
        case _ if head in LOGARITHMS and {base.head for base, _ in powers(parts[0])} <= {"e", "1"}:
            left = True
        case _ if head in _ON_NUMBERS and is_number(tree):
            left = True
        case _ if head == "\\exp" and is_number(tree):
            pass
        case _:
            shifted = parts[0].head == "+" and "\\pi" in {part.head for part in tree.subtrees()}
            kind = _KINDS.get(head, head if head[1:] in FUNCTIONS else "")
            return f"shifted {kind}" if kind == "sine" and shifted else kind
    return "arithmetic" if left else ""


def _factors(tree: Tree) -> list[Tree]:
    tree = tree.parts[0] if tree.head == "-" else tree
    return list(tree.parts) if tree.head == "*" else [tree]


def _raised(base: Tree, exponent: Tree) -> str:
    """Return the kind of work that a power leaves undone: "power" for `2^{10}`, which is allowed;
    "arithmetic" for `6^2`, `(\\frac12)^2` and `(2x)^3`."""
    value, raised = rational(base), rational(exponent)
    if raised is None:
        if base.head == "e" and any(part.head == "i" for part in exponent.subtrees()):
            return "sine"
        return "" if is_number(base) and is_number(exponent) else "exponential"
    whole = raised.denominator == 1
    if value is not None and not whole:
        lower = gcd(raised.denominator, *primes(value).values()) > 1  # the root's index
        return "arithmetic" if lower else "root"
    within = powers(base)
    again = len(within) == 1 and within[0][0] is not base and value is None
    multiple = whole and any(map(_has_number, (base, *base.parts) if base.head == "/" else (base,)))
    again = again and (within[0][1] * raised).denominator == 1
    if raised == 0 or multiple or base.head == "-" or again:
        return "arithmetic"
    if not whole:
        return "root"
    if base.head in ("e", "\\pi") or not is_number(base):
        return ""
    return "power" if value in (*PRIMES, 10) else "arithmetic"


def _has_number(tree: Tree) -> bool:
    return tree.head == "*" and rational(_coefficient(tree) or Tree("1")) != 1


def _multiplied(factors: tuple[Tree, ...]) -> bool:
    """Return whether two factors have numeric coefficients, or are sums or quotients of numbers."""
    numbers = [factor for factor in factors if _coefficient(factor) is not None]
    sums = [factor for factor in factors if factor.head == "+" and is_number(factor)]
    quotients = [factor for factor in factors if factor.head == "/" and is_number(factor)]
    return max(len(sums), len(numbers), len(quotients)) > 1


def _divided(above: Tree, below: Tree) -> bool:
    """Return whether a quotient of numbers divides evenly, or has a quotient, product or repeating
    decimal in it."""
    lower = _coefficient(below)
    if above.head == "+" and (divisor := lower and rational(lower)) and divisor != 1:
        numbers = [rational(_coefficient(part) or Tree("1")) for part in above.parts]
        return all(value is not None and (value / divisor).denominator == 1 for value in numbers)
    upper = _coefficient(above)
    if upper is None or lower is None:
        return False
    if any(
        value.head in ("/", "*") or ("." in value.head[:-1] and "\\" in value.head)
        for value in (upper, lower)
    ):
        return True
    dividend, divisor = rational(upper), rational(lower)
    if dividend is None or not divisor:  # a power, as `2^{10}`
        return False
    return (dividend / divisor).denominator == 1


def _coefficient(tree: Tree) -> Tree | None:
    """Return the numeric coefficient of a term, which may be the whole term; None without one."""
    if tree.head in ("*", "-"):
        numbers = [value for part in tree.parts if (value := _coefficient(part)) is not None]
        return numbers[0] if len(numbers) == 1 else Tree("*", tuple(numbers)) if numbers else None
    if tree.head == "/" and rational(tree) is None:
        above, below = map(_coefficient, tree.parts)
        return Tree("/", (above or Tree("1"), below)) if below else above
    return tree if is_rational(tree) else None

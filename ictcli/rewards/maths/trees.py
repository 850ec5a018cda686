"""Tidy LaTeX as a tree of what is written, nothing computed.

`algebra` reads an expression to its value; this reads its form, for the rules on unfinished and
copied answers. It refuses nothing but unmatched brackets: unknown commands are symbols.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NoReturn

from ictcli.rewards.maths.latex import CLOSE, FUNCTIONS, OPAQUE, OPEN, ROW
from ictcli.rewards.maths.nodes import DEEPEST, MalformedError
from ictcli.rewards.maths.numbers import number

_TOKEN = re.compile(
    rf"\\begin\{{[a-z]*\*?\}}|\\end\{{[a-z]*\*?\}}|{OPEN}[^{CLOSE}]*{CLOSE}"
    r"|\d*\.\d*\\(?:overline|bar|dot)(?:\{\d+\}| \d)"  # a repeating decimal
    r"|\d+(?:,\d{3}(?!\d))*(?:\.\d+)?|\.\d+|\\[a-zA-Z]+|\\.|\S"
)
_MIXED = re.compile(r"\\frac\{\d+\}\{\d+\}|\d+/\d+")
_CLOSING = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "\\lfloor": "\\rfloor",
            "\\lceil": "\\rceil", "|": "|", "\\langle": "\\rangle"}  # fmt: skip
_SEPARATORS = {",", ";", "&", ROW}
_SIGNS = {"+", "-", "\\pm", "\\mp"}
_FLIPPED = {">": "<", "\\ge": "\\le"}
_RELATIONS = {"=", "<", ":", *_FLIPPED, "\\le", "\\ne", "\\approx", "\\equiv", "\\in",
              "\\to", "\\mid", "\\cup", "\\cap", "\\setminus", "\\Rightarrow",
              "\\Leftrightarrow"}  # fmt: skip
_ENDS = {*_CLOSING.values(), *_SEPARATORS, *_SIGNS, *_RELATIONS, "\\cdot", *"*/^_!'%"} - {"|"}
"""Tokens that start no factor."""
_HIGHEST = 100
"""Levels of the highest tree; `a/b/c/...` has one more for each slash."""
OPERATORS = {"\\sum", "\\prod", "\\int", "\\iint", "\\oint", "\\lim"}


@dataclass(frozen=True)
class Tree:
    """A symbol, number or text (no parts), or an operation on its parts: `+` `-` (of one part) `*`
    `/` `^` `!` `%` `=`, a command, brackets, `,`."""

    head: str
    parts: tuple["Tree", ...] = ()

    def __hash__(self) -> int:
        return hash(self.form)

    @cached_property
    def form(self) -> str:
        """The tree as text, the same in any order of terms, factors and sides; a quotient is a
        product, and a factor 1 is left out."""
        if not self.parts:
            return self.head
        if self.head in ("*", "/"):
            factors = sorted(factors_of(self))
            return factors[0] if len(factors) == 1 else f"*({' '.join(factors)})"
        forms = [part.form for part in self.parts]
        ordered = sorted(forms) if self.head in ("+", "=") else forms
        return f"{self.head}({' '.join(ordered)})"

    def subtrees(self) -> list["Tree"]:
        """The tree and all in it."""
        found: list[Tree] = [self]
        for tree in found:
            found.extend(tree.parts)
        return found


def factors_of(tree: Tree, inverse: bool = False) -> list[str]:
    if tree.head == "*":
        return [form for part in tree.parts for form in factors_of(part, inverse)]
    if tree.head == "/":
        return factors_of(tree.parts[0], inverse) + factors_of(tree.parts[1], not inverse)
    return [] if tree.head == "1" else [f"1/{tree.form}" if inverse else tree.form]


def rational(tree: Tree) -> Fraction | None:
    """The value of a number, of a negative number or of a quotient of two."""
    if not tree.parts:
        return number(tree.head)
    if tree.head not in ("-", "/") or None in (values := list(map(rational, tree.parts))):
        return None
    first, *divisor = [value for value in values if value is not None]
    if not divisor:
        return -first
    return first / divisor[0] if divisor[0] else None


def is_rational(tree: Tree) -> bool:
    """Whether a tree is a number as it is written, or a whole power of one."""
    if tree.head == "^":
        base, exponent = map(rational, tree.parts)
        return base is not None and exponent is not None and exponent.denominator == 1
    return rational(tree) is not None


def powers(tree: Tree, power: Fraction = Fraction(1)) -> list[tuple[Tree, Fraction]]:
    """The factors of an expression without its sign, each with its exponent: of roots and
    quotients too."""
    head, parts = tree.head, tree.parts
    if head in ("*", "-"):
        return [each for part in parts for each in powers(part, power)]
    if head == "/":
        return powers(parts[0], power) + powers(parts[1], -power)
    if head == "\\sqrt":
        index = rational(parts[1]) if len(parts) > 1 else Fraction(2)
        return powers(tree.parts[0], power / index) if index else [(tree, power)]
    if head == "^" and (exponent := rational(parts[1])) is not None:
        return powers(parts[0], power * exponent)
    return [(tree, power)]


def tree_of(text: str) -> Tree:
    """The tree of tidy LaTeX. Raises MalformedError."""
    reader = _Reader(_TOKEN.findall(text))
    tree = reader.listed()
    level = [tree]
    for _ in range(_HIGHEST):
        level = [part for each in level for part in each.parts]
    return reader.fail() if level or reader.peek() else tree


class _Reader:
    """Recursive descent over the tokens; each method consumes what it reads."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.place, self.depth, self.bars = tokens, 0, 0, False

    def fail(self) -> NoReturn:
        raise MalformedError(f"{self.peek() or 'the end'} is not expected")

    def peek(self) -> str:
        """The next token; empty at the end."""
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1] if self.place <= len(self.tokens) else self.fail()

    def accept(self, tokens: set[str]) -> str:
        """The next token, taken, if it is one of these; else empty."""
        return self.take() if self.peek() in tokens else ""

    def separated(self) -> bool:
        joint = self.peek()[:1] == OPEN and self.peek()[1:-1].strip(" ,") in ("and", "or")
        return bool(self.accept({self.peek()} if joint else _SEPARATORS))

    def listed(self) -> Tree:
        """One relation, or several with separators between them."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail()
        parts: list[Tree] = []
        while True:
            if self.starts_factor() or self.peek() in _SIGNS | _RELATIONS:
                parts.append(self.relation())
            if not self.separated():
                break
        self.depth -= 1
        return parts[0] if len(parts) == 1 else Tree(",", tuple(parts))

    def relation(self) -> Tree:
        signs: list[str] = []
        sides = [] if self.peek() in _RELATIONS else [self.sum()]
        while sign := self.accept(_RELATIONS):
            signs.append(sign)
            if self.starts_factor() or self.peek() in _SIGNS:
                sides.append(self.sum())
        if not signs:
            return sides[0]
        if set(signs) <= set(_FLIPPED):
            signs, sides = [_FLIPPED[sign] for sign in reversed(signs)], sides[::-1]
        return Tree("=" if set(signs) == {"="} else " ".join(signs), tuple(sides))

    def sum(self) -> Tree:
        terms: list[Tree] = []
        while not terms or self.peek() in _SIGNS:
            sign = self.accept(_SIGNS)
            term = self.sum() if self.peek() in _SIGNS else self.term()
            within = term.parts if term.head == "+" else (term,)
            terms.extend(map(_negative, within) if sign == "-" else within)
        return terms[0] if len(terms) == 1 else Tree("+", tuple(terms))

    def term(self) -> Tree:
        factors = [self.power()]
        while True:
            if self.accept({"\\cdot", "*"}):
                factors.append(self.signed())
            elif self.accept({"/"}):
                factors = [Tree("/", (_product(factors), self.signed()))]
            elif self.starts_factor():
                factors.append(self.power())
            else:
                return _product(factors)

    def signed(self) -> Tree:
        return _negative(self.signed()) if self.accept({"-"}) else self.power()

    def starts_factor(self) -> bool:
        token = self.peek()
        joint = token[:1] == OPEN and token[1:-1].strip(" ,") in ("and", "or")
        ends = joint or token[:4] == "\\end" or token in _ENDS
        return bool(token) and not (self.bars if token == "|" else ends)

    def power(self) -> Tree:
        base = self.atom()
        while sign := self.accept({"^", "_", "!", "'", "%"}):
            if sign in ("!", "%"):
                base = Tree(sign, (base,))
            elif sign == "^":
                base = Tree("^", (base, self.raised()))
            else:
                base = Tree(base.form + sign + (self.atom().form if sign == "_" else ""))
        return base

    def raised(self) -> Tree:
        return _negative(self.atom()) if self.accept({"-"}) else self.atom()

    def atom(self) -> Tree:
        token = self.take()
        if token in _CLOSING:
            return self.within(token)
        if token[:7] == "\\begin{":
            return self.within(token)
        following = "".join(self.tokens[self.place : self.place + 7])
        if token.isdigit() and (mixed := _MIXED.match(following)):
            self.place += 7 if mixed[0][0] == "\\" else 3
            return Tree(f"{token} {mixed[0]}")
        if token[:1] != "\\" or len(token) == 2:
            return self.fail() if token in _ENDS else Tree(token)
        return self.command(token)

    def within(self, opening: str) -> Tree:
        bars, self.bars = self.bars, opening == "|"
        inside = self.listed()
        self.bars = bars
        closing = self.take()
        mixed = opening in ("(", "[") and closing in (")", "]")
        environment = opening[:7] == "\\begin{" and closing[:5] == "\\end{"
        if not (mixed or environment or closing == _CLOSING.get(opening)):
            self.fail()
        if opening == "{" or (opening in ("(", "[") and inside.head != ","):
            return inside
        return Tree(opening + closing, inside.parts if inside.head == "," else (inside,))

    def command(self, name: str) -> Tree:
        if name == "\\frac":
            return Tree("/", (self.atom(), self.atom()))
        if name == "\\binom":
            return Tree(name, (self.atom(), self.atom()))
        if name == "\\sqrt":
            index = (self.atom(),) if self.peek() == "[" else ()
            return Tree(name, (self.atom(), *index))
        if name[1:] in OPAQUE and self.starts_factor():
            return Tree(name + self.atom().form)
        if name not in OPERATORS and name[1:] not in FUNCTIONS:
            return Tree(name)
        marks = {mark: self.raised() for _ in "_^" if (mark := self.accept({"_", "^"}))}
        if name in OPERATORS:
            return Tree(name, (*marks.values(), self.operand()))
        below = (marks["_"],) if "_" in marks else ()
        value = Tree(name, (self.argument(), *below))
        return Tree("^", (value, marks["^"])) if "^" in marks else value

    def operand(self) -> Tree:
        return self.term() if self.starts_factor() else Tree("")

    def argument(self) -> Tree:
        """A bracket, or the factors up to the next sign, function, or bracket after a symbol."""
        if self.peek() in _CLOSING:
            return self.atom()
        factors = [self.signed()] if self.starts_factor() or self.peek() == "-" else []
        while self.starts_factor():
            if self.peek() in _CLOSING and any(rational(factor) is None for factor in factors):
                break
            if self.peek()[1:] in FUNCTIONS or self.peek() in OPERATORS:
                break
            factors.append(self.power())
        return _product(factors) if factors else Tree("")


def _negative(tree: Tree) -> Tree:
    return tree.parts[0] if tree.head == "-" else Tree("-", (tree,))


def _product(factors: list[Tree]) -> Tree:
    flat = [part for each in factors for part in (each.parts if each.head == "*" else (each,))]
    return flat[0] if len(flat) == 1 else Tree("*", tuple(flat))

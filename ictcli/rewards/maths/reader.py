"""Parse LaTeX into a tree: strictly to compute its value, or leniently to judge its form.

Strict parsing refuses a text that may be read in two ways, where math-verify's parser
(latex2sympy2-extended 1.11) reads `2(3)` as 5, `\\cos 3t` as cos 3, `\\sin x \\cdot x` as sin(x^2)
and `2 3` as 5. Lenient parsing refuses only unmatched brackets; unknown commands are symbols."""

import re
from typing import NoReturn

from ictcli.rewards.maths.latex import CLOSE, FUNCTIONS, GREEK, OPAQUE, OPEN, ROW, is_word
from ictcli.rewards.maths.nodes import DEEPEST, UnreadableError
from ictcli.rewards.maths.trees import CONSTANTS, OPERATORS, Tree, is_number, negative, product

_TOKEN = re.compile(
    rf"\\begin\{{[a-z]*\*?\}}|\\end\{{[a-z]*\*?\}}|{OPEN}[^{CLOSE}]*{CLOSE}"
    r"|\d*\.\d*\\(?:overline|bar|dot)(?:\{\d+\}| \d)"  # a repeating decimal
    r"|\d+(?:,\d{3}(?!\d))*(?:\.\d+)?|\.\d+|\\[a-zA-Z]+|\\.|\S"
)
_LONG_RUN = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{4,}")
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
"""Tokens that cannot start a factor."""
_HIGHEST = 100
"""Maximum height of a tree; each slash of `a/b/c/...` adds a level."""
SEVERAL = {"\\max", "\\min", "\\gcd", "\\lcm"}
"""Functions with several arguments in parentheses."""
_KNOWN = {"\\frac", "\\binom", "\\sqrt"} | {
    f"\\{name}" for name in (*FUNCTIONS, *OPAQUE) if name != "det"
}
"""Commands whose value `algebra` can compute."""
_SYMBOLS = {"\\pi", *(f"\\{letter}" for letter in GREEK)}


def tree_of(text: str, *, strict: bool = False) -> Tree:
    """Return the tree of normalized LaTeX. UnreadableError if it cannot be parsed; if `strict`,
    also if it has two meanings, words, or commands that `algebra` cannot compute."""
    if strict:
        text = re.sub(r"\\frac\{d([a-zA-Z])\}\{d([a-zA-Z])\}", r"D_{\1\2}", text)
        if re.search(r"\\frac\{d[^{}]*\}\{d", text):
            raise UnreadableError("a derivative")
        if any(map(is_word, _LONG_RUN.findall(text))):
            raise UnreadableError("words")
    text = re.sub(rf"{OPEN}[ ,]*(?:and|or)[ ,]*{CLOSE}", ";", text)
    reader = _Reader(_TOKEN.findall(text), strict)
    tree = reader.listed()
    level = [tree]
    for _ in range(_HIGHEST):
        level = [part for node in level for part in node.parts]
    return reader.fail() if level or reader.peek() else tree


class _Reader:
    """A recursive-descent parser; each method consumes the tokens that it parses."""

    def __init__(self, tokens: list[str], strict: bool) -> None:
        self.tokens, self.place, self.depth, self.bars = tokens, 0, 0, False
        self.strict = strict

    def fail(self) -> NoReturn:
        raise UnreadableError(f"{self.peek() or 'the end'} is not expected")

    def refuse(self, why: str) -> None:
        """Raise UnreadableError in strict parsing; do nothing in lenient parsing."""
        if self.strict:
            raise UnreadableError(why)

    def peek(self) -> str:
        """Return the next token; empty at the end."""
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1] if self.place <= len(self.tokens) else self.fail()

    def accept(self, tokens: set[str]) -> str:
        """Consume and return the next token if it is one of `tokens`; else return an empty text."""
        return self.take() if self.peek() in tokens else ""

    def text(self) -> str:
        """Consume a group in braces, or one token, and return it as text."""
        start, depth = self.place, 0
        while depth > 0 or self.place == start:
            token = self.take()
            depth += (token == "{") - (token == "}")
        return "".join(self.tokens[start : self.place]).strip("{}")

    def listed(self) -> Tree:
        """Parse one relation, or a list of relations with separators between them."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail()
        parts: list[Tree] = []
        while True:
            if self.starts_factor() or self.peek() in _SIGNS | _RELATIONS:
                parts.append(self.relation())
            else:
                self.refuse("a part is empty")
            if not self.accept(_SEPARATORS):
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
            if self.peek() in _SIGNS or sign[:1] == "\\":
                self.refuse("two signs in a row")
            term = self.sum() if self.peek() in _SIGNS else self.term()
            within = term.parts if term.head == "+" else (term,)
            terms.extend(map(negative, within) if sign == "-" else within)
        return terms[0] if len(terms) == 1 else Tree("+", tuple(terms))

    def term(self) -> Tree:
        """Parse a product of factors, with or without multiplication signs between them."""
        start, factors, slash = self.place, [self.power()], False
        while True:
            if self.accept({"\\cdot", "*"}):
                factors.append(self.signed())
                slash = False
            elif self.accept({"/"}):
                if self.peek() == "-":
                    self.refuse("a sign after a slash")
                factors, slash = [Tree("/", (product(factors), self.signed()))], True
            elif self.starts_factor():
                numbers = re.fullmatch(r"\d\S*/\d\S*", "".join(self.tokens[start : start + 3]))
                if slash and not (numbers and self.place == start + 3 and self.peek() == "\\pi"):
                    self.refuse("a/bc has two readings")
                factors.append(self.beside())
                slash = False
            else:
                return product(factors)

    def beside(self) -> Tree:
        """Parse a factor that follows another without a sign between them."""
        if self.peek()[0].isdigit() and self.tokens[self.place - 1] != "!":
            self.refuse("a number after a factor")
        return self.power()

    def signed(self) -> Tree:
        if not self.accept({"-"}):
            return self.power()
        if self.peek() == "-":
            self.refuse("two signs in a row")
        return negative(self.signed())

    def starts_factor(self) -> bool:
        token = self.peek()
        ends = token[:4] == "\\end" or token in _ENDS
        return bool(token) and not (self.bars if token == "|" else ends)

    def power(self) -> Tree:
        base, read = self.atom(), ""
        while sign := self.accept({"^", "_", "!", "'", "%"}):
            read += sign
            if sign in "_'%" or "!!" in read or read.count("^") > 1:
                self.refuse(f"{read} has two readings")
            if sign in ("!", "%"):
                base = Tree(sign, (base,))
            elif sign == "^":
                base = Tree("^", (base, self.raised()))
            else:
                base = Tree(base.form + sign + (self.atom().form if sign == "_" else ""))
        return base

    def raised(self) -> Tree:
        if not self.accept({"-"}):
            return self.atom()
        self.refuse("a sign without brackets")
        return negative(self.atom())

    def atom(self) -> Tree:
        token = self.take()
        if token in _CLOSING or token[:7] == "\\begin{":
            return self.within(token)
        if token.isalpha() or token in _SYMBOLS:
            return self.symbol(token)
        if token.isdigit():
            following = "".join(self.tokens[self.place : self.place + 7])
            if mixed := _MIXED.match(following):
                if mixed[0][0] != "\\":
                    self.refuse("a number after a number")
                self.place += 7 if mixed[0][0] == "\\" else 3
                return Tree(f"{token} {mixed[0]}")
        if token[:1] != "\\" or len(token) == 2:
            return self.fail() if token in _ENDS else Tree(token)
        return self.command(token)

    def symbol(self, name: str) -> Tree:
        """Parse a letter with its index and primes; if strict, also `f(x+1)`, `P(1)` or `x(t)`."""
        if self.accept({"_"}):
            name += "_" + self.text()
        while self.peek() == "'":
            name += self.take()
        inside = "".join(self.tokens[self.place : self.place + 3])
        single = inside[-1:] == ")" and inside[1:-1].isalnum()
        called = inside[:1] == "(" and (name in ("f", "g", "h") or single)
        if not (self.strict and called) or name in CONSTANTS:
            return Tree(name)
        self.take()
        arguments = self.listed()
        if self.take() != ")":
            self.fail()
        return Tree(f"{name}()", arguments.parts if arguments.head == "," else (arguments,))

    def within(self, opening: str) -> Tree:
        bars, self.bars = self.bars, opening == "|"
        inside = self.listed()
        self.bars = bars
        closing = self.take()
        if closing != _CLOSING.get(opening):
            mixed = opening in ("(", "[") and closing in (")", "]")
            if not (mixed or (opening[:7] == "\\begin{" and closing[:5] == "\\end{")):
                self.fail()
            self.refuse("half an interval")
        if opening == "{" or (opening in ("(", "[") and inside.head != ","):
            return inside
        return Tree(opening + closing, inside.parts if inside.head == "," else (inside,))

    def command(self, name: str) -> Tree:
        if self.strict and (name not in _KNOWN or (name in SEVERAL and self.peek() != "(")):
            raise UnreadableError(name)
        if name in ("\\frac", "\\binom"):
            return Tree("/" if name == "\\frac" else name, (self.atom(), self.atom()))
        if name == "\\sqrt":
            index = (self.atom(),) if self.peek() == "[" else ()
            return Tree(name, (self.atom(), *index))
        if name[1:] in OPAQUE and not self.starts_factor():
            self.refuse(f"{name} of nothing")
        elif name[1:] in OPAQUE:
            letters = ""
            while len(self.peek()) == 1 and self.peek().isupper():
                letters += self.take()
            return Tree(name + (letters or self.text()))
        return self.function(name) if name in OPERATORS or name[1:] in FUNCTIONS else Tree(name)

    def function(self, name: str) -> Tree:
        marks: dict[str, Tree] = {}
        while mark := self.accept({"_", "^"}):
            marks[mark] = self.raised()
        if name in OPERATORS:
            sign = self.accept({"-"})
            operand = self.term() if sign or self.starts_factor() else Tree("")
            operand = negative(operand) if sign else operand
            return Tree(name, (*marks.values(), operand))
        base, exponent = marks.get("_"), marks.get("^")
        if base and name != "\\log":
            self.refuse(f"{name}_")
        if exponent == Tree("-", (Tree("1"),)):
            if f"arc{name[1:]}" in FUNCTIONS:
                name, exponent = f"\\arc{name[1:]}", None
            else:
                self.refuse(f"{name}^-1")
        value = Tree(name, (self.argument(name), *([base] if base else [])))
        return Tree("^", (value, exponent)) if exponent else value

    def argument(self, name: str) -> Tree:
        """Parse a function's argument: a bracket, or factors up to the next sign, function, or
        bracket after a symbol, as in `\\sin 2x \\cos x`, `\\sin 2(x+1)` and `\\sin x (x+1)`."""
        if self.peek() in ("(", "{", "[", "|"):
            inside = self.atom()
            if self.peek() == "^" and self.tokens[self.place - 1] != "}" and name not in SEVERAL:
                self.refuse(f"{name}(x)^n has two readings")
            return inside
        factors = [self.signed()] if self.starts_factor() or self.peek() == "-" else []
        while self.starts_factor():
            if self.peek() in ("(", "[", "|"):
                if not all(map(is_number, factors)):
                    break
                if name in ("\\ln", "\\log", "\\lg"):
                    self.refuse(f"{name} 2(x) has two readings")
            if self.peek()[1:] in FUNCTIONS or self.peek() in OPERATORS:
                break
            factors.append(self.beside())
        if self.peek() == "/":
            self.refuse(f"{name} a/b has two readings")
        return product(factors) if factors else Tree("")

"""A reader of tidy LaTeX expressions to sympy, that reads all of an expression or nothing.

math-verify's own reader (latex2sympy2-extended 1.11) takes `2(3)` for 5, `\\cos 3t` for cos 3,
`\\sin x \\cdot x` for sin(x^2), `2 3` for 5 and capitals for small letters, so the common part of
the language is read here: sums, products written or implied, powers, roots, fractions, functions,
absolute values, floors, binomials, factorials, finite sums. What has two readings is refused.
"""

from __future__ import annotations

import re
from typing import Any, cast

import sympy as _sympy  # pyright: ignore[reportMissingTypeStubs]

from ictcli.rewards.maths.functions import (
    FUNCTIONS,
    INVERSE,
    LARGEST_COUNT,
    SEVERAL,
    UnknownError,
    UnreadableError,
    power,
    root,
)
from ictcli.rewards.maths.spelling import GREEK, OPAQUE

sympy = cast(Any, _sympy)

DEEPEST = 60
"""Brackets within brackets; more is refused before Python's stack is short."""

_TOKEN = re.compile(r"(\d+(?:,\d{3}(?!\d))*(?:\.\d+)?|\.\d+)|(\\[a-zA-Z]+|\\.)|([A-Za-z])|(\S)|\s+")
_CLOSING = {"(": ")", "[": "]", "{": "}", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil", "|": "|"}
_CLOSERS = set(_CLOSING.values()) | {",", "+", "-", "/", "*", "\\cdot", ""}


def read(text: str) -> Any:
    """The sympy expression of tidy LaTeX. Raises UnreadableError."""
    text = re.sub(r"\\frac\{d([a-zA-Z])\}\{d([a-zA-Z])\}", r"D_{\1\2}", text)
    if re.search(r"\\frac\{d[^{}]*\}\{d", text):
        raise UnknownError("a derivative")
    return _Reader(text).whole()


class _Reader:
    """Recursive descent over the tokens; each method takes what it reads."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        end = 0
        for found in _TOKEN.finditer(text):
            if found.start() != end:
                raise UnreadableError(text)
            end = found.end()
            if not found[0].isspace():
                self.tokens.append(found[0])
        self.place = 0
        self.depth = 0
        self.bars = 0
        self.bound: set[str] = set()

    def peek(self) -> str:
        """The token to be taken next; empty at the end."""
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        if not token or (expected is not None and token != expected):
            raise UnreadableError(f"{token or 'the end'} instead of {expected or 'more'}")
        self.place += 1
        return token

    def whole(self) -> Any:
        found = self.sum()
        if self.peek():
            raise UnreadableError(self.peek())
        return found

    def sum(self) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnreadableError("too deep")
        total = self.term()
        while self.peek() in ("+", "-"):
            sign = self.take()
            term = self.term()
            total = total + term if sign == "+" else total - term
        self.depth -= 1
        return total

    def term(self) -> Any:
        """Factors, written side by side or with a sign between."""
        negative = False
        while self.peek() in ("+", "-"):
            negative ^= self.take() == "-"
        start = self.place
        product = self.power()
        slash = False
        while True:
            token = self.peek()
            if token in ("\\cdot", "*"):
                self.take()
                minus = self.peek() == "-" and bool(self.take())
                product = product * self.power() * (-1 if minus else 1)
                slash = False
            elif token == "/":
                self.take()
                above = self.place
                below = self.power()
                if below == 0:
                    raise UnreadableError("divided by zero")
                product = product / below
                slash = not self.figures(start, self.place) or above - start != 2
            elif self.starts_factor(token):
                if slash:
                    raise UnreadableError("a/bc has two readings")
                before = self.tokens[self.place - 1]
                if token[0].isdigit() and before != "!":
                    raise UnreadableError("a number behind a factor")
                product = self.mixed(product, before) or product * self.power()
            else:
                return -product if negative else product

    def figures(self, first: int, last: int) -> bool:
        return all(token[0].isdigit() or token == "/" for token in self.tokens[first:last])

    def mixed(self, whole: Any, before: str) -> Any:
        """`1\\frac{1}{2}`: digits directly behind a whole number are its fraction."""
        signs = self.tokens[self.place : self.place + 7]
        if self.peek() != "\\frac" or not before.isdigit() or len(signs) < 7:
            return None
        if not (signs[2].isdigit() and signs[5].isdigit() and signs[3] == "}" and signs[6] == "}"):
            return None
        if self.tokens[max(self.place - 2, 0)] in ("^", "_"):
            return None
        if not (whole.is_Integer and whole >= 0):
            raise UnreadableError("a mixed number behind a factor")
        self.place += 7
        if int(signs[5]) == 0:
            raise UnreadableError("divided by zero")
        return whole + sympy.Rational(int(signs[2]), int(signs[5]))

    def starts_factor(self, token: str) -> bool:
        if token == "|":
            return self.bars == 0
        return (
            bool(token)
            and token not in _CLOSERS
            and token not in ("^", "_", "!", "=", "&", ":", "'")
        )

    def power(self) -> Any:
        base = self.postfix(self.atom())
        if self.peek() == "^":
            self.take()
            exponent = self.group()
            if self.peek() == "^":
                raise UnreadableError("x^y^z has two readings")
            base = self.postfix(power(base, exponent))
        return base

    def postfix(self, value: Any) -> Any:
        if self.peek() == "!":
            self.take()
            if self.peek() == "!":
                raise UnreadableError("a double factorial")
            if value.is_number and abs(value) > LARGEST_COUNT:
                raise UnreadableError("too large a factorial")
            return sympy.factorial(value)
        return value

    def group(self) -> Any:
        """An argument: a group in braces, or one token."""
        if self.peek() == "{":
            return self.within("{")
        if self.peek() == "-":
            raise UnreadableError("-")
        return self.atom()

    def within(self, opening: str) -> Any:
        self.take(opening)
        bars, self.bars = self.bars, int(opening == "|")
        found = self.sum()
        self.bars = bars
        self.take(_CLOSING[opening])
        return found

    def atom(self) -> Any:
        token = self.peek()
        if token in ("(", "[", "{"):
            return self.within(token)
        if token == "|":
            return sympy.Abs(self.within("|"))
        if token in ("\\lfloor", "\\lceil"):
            inside = self.within(token)
            return sympy.floor(inside) if token == "\\lfloor" else sympy.ceiling(inside)
        self.take()
        if token[:1].isdigit() or (token[:1] == "." and len(token) > 1):
            return sympy.Rational(token.replace(",", ""))
        if token.isalpha() or token[1:] in GREEK:
            return self.symbol(token)
        if token[:1] == "\\":
            return self.command(token[1:])
        raise UnreadableError(token)

    def symbol(self, letter: str) -> Any:
        name = letter.lstrip("\\")
        if self.peek() == "_":
            self.take()
            start = self.place
            if self.peek() == "{":
                self.skip_group()
            else:
                self.take()
            name += "_" + "".join(self.tokens[start : self.place]).strip("{}")
        while self.peek() == "'":
            name += self.take()
        if name in self.bound:
            return sympy.Symbol(name, integer=True)
        if name in ("e", "i"):
            return sympy.E if name == "e" else sympy.I
        if self.peek() == "(" and (name in ("f", "g", "h") or self.one_token()):
            return sympy.Function(name)(*self.arguments())
        return sympy.Symbol(name, real=True)

    def one_token(self) -> bool:
        """Whether the parentheses that follow hold one sign, as in P(1) or x(t)."""
        inside = self.tokens[self.place + 1 : self.place + 3]
        return len(inside) == 2 and inside[1] == ")" and inside[0].isalnum()

    def skip_group(self) -> None:
        depth = 0
        while True:
            token = self.take()
            depth += (token == "{") - (token == "}")
            if depth == 0:
                return

    def arguments(self) -> list[Any]:
        self.take("(")
        found = [self.sum()]
        while self.peek() == ",":
            self.take()
            found.append(self.sum())
        self.take(")")
        return found

    def command(self, name: str) -> Any:
        if name in ("frac", "binom"):
            above, below = self.within("{"), self.within("{")
            if name == "binom":
                if above.is_number and abs(above) > LARGEST_COUNT:
                    raise UnreadableError("too large a binomial")
                return sympy.binomial(above, below)
            if below == 0:
                raise UnreadableError("divided by zero")
            return above / below
        if name == "sqrt":
            index = self.within("[") if self.peek() == "[" else sympy.Integer(2)
            return root(self.within("{"), index)
        if name in ("pi", "infty"):
            return sympy.pi if name == "pi" else sympy.oo
        if name in OPAQUE:
            return self.opaque(name)
        if name in SEVERAL and self.peek() == "(":
            return SEVERAL[name](*self.arguments())
        if name in FUNCTIONS:
            return self.function(name)
        if name in ("sum", "prod"):
            return self.series(name)
        raise UnknownError(f"\\{name}")

    def opaque(self, name: str) -> Any:
        """A decorated letter or figure as a symbol of its own."""
        start = self.place
        if self.peek() == "{":
            self.skip_group()
        else:
            while len(self.peek()) == 1 and self.peek().isupper():
                self.take()
            if self.place == start:
                self.take()
        return sympy.Symbol(
            f"{name}:" + "".join(self.tokens[start : self.place]).strip("{}"), real=True
        )

    def function(self, name: str) -> Any:
        base = exponent = None
        while self.peek() in ("^", "_"):
            if self.take() == "_":
                base = self.group()
            else:
                exponent = self.group()
        if base is not None and name != "log":
            raise UnreadableError(f"\\{name}_")
        apply = FUNCTIONS[name]
        if exponent == -1:
            if name not in INVERSE:
                raise UnreadableError(f"\\{name}^-1")
            apply, exponent = FUNCTIONS[INVERSE[name]], None
        value = apply(self.argument_of(name))
        if base is not None:
            value = value * sympy.log(10) / sympy.log(base)
        return value if exponent is None else power(value, exponent)

    def argument_of(self, name: str) -> Any:
        """A bracket, or the factors up to the next sign or function: \\sin 2x \\cos x."""
        if self.peek() in ("(", "{", "[", "|"):
            argument = self.within(self.peek())
            if self.peek() == "^" and self.tokens[self.place - 1] in (")", "]"):
                raise UnreadableError(f"\\{name}(x)^n has two readings")
            return argument
        minus = self.peek() == "-" and bool(self.take())
        argument = self.power()
        while self.starts_factor(self.peek()) and self.peek() not in ("(", "[", "|"):
            if self.peek()[1:] in (*FUNCTIONS, *SEVERAL, "sum", "prod"):
                break
            if self.peek()[0].isdigit():
                raise UnreadableError("a number behind a factor")
            argument = self.mixed(argument, self.tokens[self.place - 1]) or argument * self.power()
        if self.peek() == "/":
            raise UnreadableError(f"\\{name} a/b has two readings")
        return -argument if minus else argument

    def series(self, name: str) -> Any:
        """\\sum_{k=1}^{n} of the term that follows."""
        self.take("_")
        self.take("{")
        index = self.take()
        if not index.isalpha():
            raise UnreadableError(index)
        self.take("=")
        first = self.sum()
        self.take("}")
        self.take("^")
        last = self.group()
        outer, self.bound = self.bound, self.bound | {index}
        term = self.term()
        self.bound = outer
        if (last - first).is_number and last - first > LARGEST_COUNT:
            raise UnreadableError("too long a sum")
        counter = sympy.Symbol(index, integer=True)
        return (sympy.Sum if name == "sum" else sympy.Product)(term, (counter, first, last))

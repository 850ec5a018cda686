"""A parser from tidy LaTeX expressions to sympy that reads a whole expression or refuses it.

math-verify's parser (latex2sympy2-extended 1.11) reads `2(3)` as 5, `\\cos 3t` as cos 3,
`\\sin x \\cdot x` as sin(x^2), `2 3` as 5 and capitals as small letters. This one covers sums,
explicit and implied products, powers, roots, fractions, functions, absolute values, floors,
binomials, factorials and finite sums, and refuses what has two readings.
"""

import re
from typing import Any, cast

import sympy as _sympy  # pyright: ignore[reportMissingTypeStubs]

from ictcli.rewards.maths.latex import GREEK, OPAQUE, is_word
from ictcli.rewards.maths.numbers import number
from ictcli.rewards.maths.operations import (
    FUNCTIONS,
    LARGEST_COUNT,
    SEVERAL,
    UnknownError,
    UnreadableError,
    countable,
    power,
    quotient,
    root,
    without_positive_factors,
)

__all__ = ["UnknownError", "UnreadableError", "read"]

sympy = cast(Any, _sympy)

DEEPEST = 60
"""Deepest nesting of brackets; more could exhaust Python's stack."""

_TOKEN = re.compile(
    r"\d*\.\d*\\(?:overline|bar|dot)(?:\{\d+\}| \d)"  # a repeating decimal
    r"|\d+(?:,\d{3}(?!\d))*(?:\.\d+)?|\.\d+|\\[a-zA-Z]+|\\.|\S"
)
_LONG_RUN = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{4,}")
_MIXED = re.compile(r"\\frac\{(\d+)\}\{(\d+)\}")
_CLOSING = {"(": ")", "[": "]", "{": "}", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil", "|": "|"}
_ENDS = {*_CLOSING.values(), "\\cdot", "", *",+-/*^_!=&:'"}
"""Tokens that start no factor."""


def read(text: str) -> tuple[Any, frozenset[Any]]:
    """The sympy expression of tidy LaTeX, and what must not be negative for it to be real, as it
    is written: sympy cancels a logarithm or a root. Raises UnreadableError."""
    text = re.sub(r"\\frac\{d([a-zA-Z])\}\{d([a-zA-Z])\}", r"D_{\1\2}", text)
    if re.search(r"\\frac\{d[^{}]*\}\{d", text):
        raise UnknownError("a derivative")
    if any(map(is_word, _LONG_RUN.findall(text))):
        raise UnreadableError("words")
    reader = _Reader(_TOKEN.findall(text))
    expression = reader.sum()
    if reader.peek():
        raise UnreadableError(reader.peek())
    return expression, frozenset(map(without_positive_factors, reader.conditions))


def _exact(token: str) -> Any:
    value = number(token)
    if value is None:
        raise UnreadableError("too long a number")
    return sympy.Rational(value.numerator, value.denominator)


class _Reader:
    """Recursive descent over the tokens; each method consumes what it reads."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0
        self.bars = 0
        self.bound: dict[str, str] = {}
        """Letters of sums, with the name that each has in every text."""
        self.infinite = False
        self.conditions: list[Any] = []

    def peek(self) -> str:
        """The next token; empty at the end."""
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        if not token or (expected is not None and token != expected):
            raise UnreadableError(f"{token or 'the end'} instead of {expected or 'more'}")
        self.place += 1
        return token

    def accept(self, *tokens: str) -> str:
        """The next token, taken, if it is one of these; else empty."""
        return self.take() if self.peek() in tokens else ""

    def sum(self) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnreadableError("too deep")
        total = self.term()
        while sign := self.accept("+", "-"):
            if self.peek() in ("+", "-"):
                raise UnreadableError("two signs in a row")
            term = self.term()
            total = total + term if sign == "+" else total - term
        self.depth -= 1
        return total

    def term(self) -> Any:
        """Factors side by side or with a sign between them."""
        negative = self.accept("+", "-") == "-"
        if self.peek() in ("+", "-"):
            raise UnreadableError("two signs in a row")
        start = self.place
        product = self.power()
        slash = number_first = False
        while True:
            if self.accept("\\cdot", "*"):
                minus = self.accept("-")
                product = product * self.power() * (-1 if minus else 1)
                slash = False
            elif self.accept("/"):
                product = quotient(product, self.power())
                read_so_far = " ".join(self.tokens[start : self.place])
                slash = True
                number_first = bool(re.fullmatch(r"\d\S* / \d\S*", read_so_far))
            elif self.starts_factor():
                if slash and not (number_first and self.peek() == "\\pi"):
                    raise UnreadableError("a/bc has two readings")
                if self.peek()[0].isdigit() and self.tokens[self.place - 1] != "!":
                    raise UnreadableError("a number after a factor")
                product = self.mixed(product) or product * self.power()
                slash = False
            else:
                return -product if negative else product

    def mixed(self, whole: Any) -> Any:
        """The value of a mixed number like `1\\frac{1}{2}` after its whole part; else None."""
        fraction = _MIXED.fullmatch("".join(self.tokens[self.place : self.place + 7]))
        raised = self.tokens[max(self.place - 2, 0)] in ("^", "_")
        if not fraction or not self.tokens[self.place - 1].isdigit() or raised:
            return None
        if not (whole.is_Integer and whole >= 0):
            raise UnreadableError("a mixed number after a factor")
        self.place += 7
        return whole + quotient(sympy.Integer(fraction[1]), sympy.Integer(fraction[2]))

    def starts_factor(self) -> bool:
        token = self.peek()
        return self.bars == 0 if token == "|" else token not in _ENDS

    def power(self) -> Any:
        known = len(self.conditions)
        base = self.postfix(self.atom())
        if self.accept("^"):
            exponent = self.atom()
            if self.peek() == "^":
                raise UnreadableError("x^y^z has two readings")
            result = power(base, exponent)
            if self.conditions[known:] == [result]:  # (\\sqrt{x})^2 is x
                self.conditions.pop()
            even_root = exponent.is_Rational and exponent.q % 2 == 0
            if even_root or base.free_symbols & exponent.free_symbols:  # x^x
                self.require(base)
            base = self.postfix(result)
        return base

    def require(self, inside: Any) -> Any:
        """What is not negative wherever the expression is real."""
        if inside.free_symbols and not (inside.is_nonnegative or isinstance(inside, sympy.Abs)):
            self.conditions.append(inside)
        return inside

    def postfix(self, value: Any) -> Any:
        if not self.accept("!"):
            return value
        if self.peek() == "!":
            raise UnreadableError("a double factorial")
        return sympy.factorial(countable(value))

    def within(self, opening: str) -> Any:
        self.take(opening)
        bars, self.bars = self.bars, int(opening == "|")
        expression = self.sum()
        self.bars = bars
        self.take(_CLOSING[opening])
        return expression

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
            return _exact(token)
        if token.isalpha() or token[1:] in GREEK:
            return self.symbol(token)
        if token[:1] == "\\":
            return self.command(token[1:])
        raise UnreadableError(token)

    def symbol(self, letter: str) -> Any:
        name = letter.lstrip("\\")
        if self.accept("_"):
            name += "_" + self.text()
        while self.peek() == "'":
            name += self.take()
        if name in self.bound:
            return sympy.Symbol(self.bound[name], integer=True)
        if name in ("e", "i"):
            return sympy.E if name == "e" else sympy.I
        next_two = self.tokens[self.place + 1 : self.place + 3]
        one_token = len(next_two) == 2 and next_two[1] == ")" and next_two[0].isalnum()
        if self.peek() == "(" and (name in ("f", "g", "h") or one_token):  # f(x+1), P(1), x(t)
            return sympy.Function(name)(*self.arguments())
        return sympy.Symbol(name, real=True)

    def text(self) -> str:
        """A group in braces or one token, as text."""
        start, depth = self.place, 0
        while depth > 0 or self.place == start:
            token = self.take()
            depth += (token == "{") - (token == "}")
        return "".join(self.tokens[start : self.place]).strip("{}")

    def arguments(self) -> list[Any]:
        self.take("(")
        expressions = [self.sum()]
        while self.accept(","):
            expressions.append(self.sum())
        self.take(")")
        return expressions

    def command(self, name: str) -> Any:
        if name in ("frac", "binom"):
            above, below = self.within("{"), self.within("{")
            if name == "frac":
                return quotient(above, below)
            return sympy.binomial(countable(above), below)
        if name == "sqrt":
            index = self.within("[") if self.peek() == "[" else sympy.Integer(2)
            inside = self.within("{")
            return root(inside if index.is_odd else self.require(inside), index)
        if name in ("pi", "infty"):
            return sympy.pi if name == "pi" else self.infinity()
        if name in OPAQUE:
            return self.opaque(name)
        if name in SEVERAL and self.peek() == "(":
            return SEVERAL[name](*self.arguments())
        if name in FUNCTIONS:
            return self.function(name)
        if name in ("sum", "prod"):
            return self.series(name)
        raise UnknownError(f"\\{name}")

    def infinity(self) -> Any:
        """Infinity as the end of a sum; it has no place in other expressions."""
        if not self.infinite:
            raise UnreadableError("infinity in an expression")
        return sympy.oo

    def opaque(self, name: str) -> Any:
        """A decorated letter or figure as one symbol."""
        start = self.place
        while len(self.peek()) == 1 and self.peek().isupper():
            self.take()
        letters = "".join(self.tokens[start : self.place])
        return sympy.Symbol(f"{name}:{letters or self.text()}", real=True)

    def function(self, name: str) -> Any:
        base = exponent = None
        while mark := self.accept("^", "_"):
            if mark == "_":
                base = self.atom()
            else:
                exponent = self.atom()
        if base is not None and name != "log":
            raise UnreadableError(f"\\{name}_")
        apply = FUNCTIONS[name]
        if exponent == -1:
            if f"arc{name}" not in FUNCTIONS:
                raise UnreadableError(f"\\{name}^-1")
            apply, exponent = FUNCTIONS[f"arc{name}"], None
        argument = self.argument_of(name)
        if name in ("ln", "log", "lg"):
            self.require(argument)
        value = apply(argument)
        if base is not None:
            value = value * sympy.log(10) / sympy.log(base)
        return value if exponent is None else power(value, exponent)

    def argument_of(self, name: str) -> Any:
        """A bracket, or the factors up to the next sign or function: \\sin 2x \\cos x."""
        if self.peek() in ("(", "{", "[", "|"):
            argument = self.atom()
            if self.peek() == "^" and self.tokens[self.place - 1] in (")", "]", "|"):
                raise UnreadableError(f"\\{name}(x)^n has two readings")
            return argument
        minus = self.accept("-")
        argument = self.power()
        while self.starts_factor():
            if self.peek() in ("(", "[", "|"):  # \\sin 2(x+1), but \\sin x (x+1)
                if argument.free_symbols:
                    break
                if name in ("ln", "log", "lg"):
                    raise UnreadableError(f"\\{name} 2(x) has two readings")
            if self.peek()[1:] in (*FUNCTIONS, *SEVERAL, "sum", "prod"):
                break
            if self.peek()[0].isdigit():
                raise UnreadableError("a number after a factor")
            argument = self.mixed(argument) or argument * self.power()
        if self.peek() == "/":
            raise UnreadableError(f"\\{name} a/b has two readings")
        return -argument if minus else argument

    def series(self, name: str) -> Any:
        """\\sum_{k=1}^{n} or \\prod of the term that follows."""
        self.take("_")
        self.take("{")
        index = self.take()
        if not index.isalpha():
            raise UnreadableError(index)
        self.take("=")
        first = self.sum()
        self.take("}")
        self.take("^")
        self.infinite = True
        last = self.atom()
        self.infinite = False
        outer, self.bound = self.bound, self.bound | {index: f"#{len(self.bound)}"}
        term = self.term()
        counter = sympy.Symbol(self.bound[index], integer=True)
        self.bound = outer
        if last.is_finite and (last - first).is_number and last - first > LARGEST_COUNT:
            raise UnreadableError("too long a sum")
        self.conditions = [each for each in self.conditions if counter not in each.free_symbols]
        return (sympy.Sum if name == "sum" else sympy.Product)(term, (counter, first, last))

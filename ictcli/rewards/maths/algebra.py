"""A parser from tidy LaTeX expressions to sympy that reads a whole expression or refuses it.

math-verify's parser (latex2sympy2-extended 1.11) reads `2(3)` as 5, `\\cos 3t` as cos 3,
`\\sin x \\cdot x` as sin(x^2), `2 3` as 5 and capitals as small letters. This one covers sums,
explicit and implied products, powers, roots, fractions, functions, absolute values, floors,
binomials, factorials and finite sums, and refuses what has two readings.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import sympy as _sympy  # pyright: ignore[reportMissingTypeStubs]

from ictcli.rewards.maths.latex import GREEK, OPAQUE

sympy = cast(Any, _sympy)

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan, "cot": sympy.cot, "sec": sympy.sec,
    "csc": sympy.csc, "arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan,
    "arccot": sympy.acot, "sinh": sympy.sinh, "cosh": sympy.cosh, "tanh": sympy.tanh,
    "ln": sympy.log, "exp": sympy.exp, "log": lambda x: sympy.log(x, 10),
    "lg": lambda x: sympy.log(x, 10),
}  # fmt: skip
INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot"}
SEVERAL = {"max": sympy.Max, "min": sympy.Min, "gcd": sympy.gcd, "lcm": sympy.lcm}

LARGEST_COUNT = 2000
"""Largest argument of a factorial or binomial, and longest finite sum."""
LARGEST_POWER = 20_000
"""Most digits of a power of a number, and largest exponent of anything else."""
DEEPEST = 60
"""Deepest nesting of brackets; more could exhaust Python's stack."""

_TOKEN = re.compile(r"(\d+(?:,\d{3}(?!\d))*(?:\.\d+)?|\.\d+)|(\\[a-zA-Z]+|\\.)|([A-Za-z])|(\S)|\s+")
_CLOSING = {"(": ")", "[": "]", "{": "}", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil", "|": "|"}
_CLOSERS = set(_CLOSING.values()) | {",", "+", "-", "/", "*", "\\cdot", ""}


class UnreadableError(ValueError):
    """The text is not an expression with exactly one reading."""


class UnknownError(UnreadableError):
    """The text holds a command that this parser does not know."""


def quotient(above: Any, below: Any) -> Any:
    """above / below. Raises UnreadableError for 0."""
    if below == 0:
        raise UnreadableError("divided by zero")
    return above / below


def countable(value: Any, refusal: str) -> Any:
    """The value. Raises UnreadableError for a number above LARGEST_COUNT."""
    if value.is_number and abs(value) > LARGEST_COUNT:
        raise UnreadableError(refusal)
    return value


def root(inside: Any, index: Any) -> Any:
    """The index-th root; odd roots of negative numbers are real."""
    if index.is_Integer and index % 2 == 1:
        return sympy.sign(inside) * sympy.root(sympy.Abs(inside), index)
    return sympy.root(inside, index)


def power(base: Any, exponent: Any) -> Any:
    """base ** exponent. Raises UnreadableError if the result would be very large."""
    if exponent.is_Rational and exponent.q % 2 == 1 and exponent.q > 1 and base.is_real:
        return power(root(base, sympy.Integer(exponent.q)), sympy.Integer(exponent.p))
    if exponent.is_number and exponent.is_real:
        digits = abs(exponent) * (1 if base.free_symbols else sympy.log(abs(base) + 2, 10))
        if sympy.N(digits, 5) > LARGEST_POWER:
            raise UnreadableError("too large a power")
    result = base**exponent
    if result.is_Pow and result.exp.is_number and abs(result.exp) > LARGEST_POWER:
        raise UnreadableError("too large a power")
    return result


def read(text: str) -> Any:
    """The sympy expression of tidy LaTeX. Raises UnreadableError."""
    text = re.sub(r"\\frac\{d([a-zA-Z])\}\{d([a-zA-Z])\}", r"D_{\1\2}", text)
    if re.search(r"\\frac\{d[^{}]*\}\{d", text):
        raise UnknownError("a derivative")
    return _Reader(text).whole()


class _Reader:
    """Recursive descent over the tokens; each method consumes what it reads."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        end = 0
        for match in _TOKEN.finditer(text):
            if match.start() != end:
                raise UnreadableError(text)
            end = match.end()
            if not match[0].isspace():
                self.tokens.append(match[0])
        self.place = 0
        self.depth = 0
        self.bars = 0
        self.bound: set[str] = set()

    def peek(self) -> str:
        """The next token; empty at the end."""
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        if not token or (expected is not None and token != expected):
            raise UnreadableError(f"{token or 'the end'} instead of {expected or 'more'}")
        self.place += 1
        return token

    def whole(self) -> Any:
        expression = self.sum()
        if self.peek():
            raise UnreadableError(self.peek())
        return expression

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
        """Factors side by side or with a sign between them."""
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
                product = quotient(product, self.power())
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
        """The value of a mixed number like `1\\frac{1}{2}` after its whole part; else None."""
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
        return whole + quotient(sympy.Integer(signs[2]), sympy.Integer(signs[5]))

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
            return sympy.factorial(countable(value, "too large a factorial"))
        return value

    def group(self) -> Any:
        """An argument: a group in braces or one token."""
        if self.peek() == "{":
            return self.within("{")
        if self.peek() == "-":
            raise UnreadableError("-")
        return self.atom()

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
        """Whether the parentheses that follow hold one token, as in P(1) or x(t)."""
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
        expressions = [self.sum()]
        while self.peek() == ",":
            self.take()
            expressions.append(self.sum())
        self.take(")")
        return expressions

    def command(self, name: str) -> Any:
        if name in ("frac", "binom"):
            above, below = self.within("{"), self.within("{")
            if name == "frac":
                return quotient(above, below)
            return sympy.binomial(countable(above, "too large a binomial"), below)
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
        """A decorated letter or figure as one symbol."""
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
        last = self.group()
        outer, self.bound = self.bound, self.bound | {index}
        term = self.term()
        self.bound = outer
        if (last - first).is_number and last - first > LARGEST_COUNT:
            raise UnreadableError("too long a sum")
        counter = sympy.Symbol(index, integer=True)
        return (sympy.Sum if name == "sum" else sympy.Product)(term, (counter, first, last))

"""The task `chain`: problems and solutions.

A problem is an arithmetic expression of single digits with `+`, `-` and `*`, computed
modulo 10. The prompt is the expression and `=`. A response rewrites it one operator at a
time, lines separated by `;` and ended by `#`:

    prompt    3+4*2-5=
    response  3+8-5;1-5;6#

One character is one token. The only choice is which operator a line applies.

Source: ours.
"""

import random
from functools import partial

from ictcli.rewards import find_verifier
from ictcli.tasks.registry import register_benchmark, register_task
from ictcli.tasks.task import Benchmark, Domain, Task, is_set_aside
from ictcli.types import Problem

CHAIN = (4, 8)
"""Numbers of operands, inclusive, of the problems the base model is pre-trained on."""

CHAIN_LONG = (9, 10)
"""Numbers of operands, inclusive, of problems longer than any in pre-training."""

_DIGITS = "0123456789"
_OPERATORS = "+-*"


def make_expression(rng: random.Random, operands: tuple[int, int]) -> str:
    """Draw an expression, with uniform size, digits and operators. `operands` is the inclusive
    range of the number of operands, such as `CHAIN`."""
    size = rng.randint(*operands)
    digits = rng.choices(_DIGITS, k=size)
    operators = rng.choices(_OPERATORS, k=size - 1)
    return digits[0] + "".join(o + d for o, d in zip(operators, digits[1:], strict=True))


def value(expression: str) -> int:
    """Compute an expression modulo 10: `*` binds tighter, otherwise left to right."""
    total, sign, term = 0, 1, int(expression[0])
    for operator, digit in zip(expression[1::2], expression[2::2], strict=True):
        if operator == "*":
            term *= int(digit)
        else:
            total += sign * term
            sign, term = (1 if operator == "+" else -1), int(digit)
    return (total + sign * term) % 10


DOMAIN = Domain(find_verifier("chain"), words=False)


def draw(rng: random.Random, n: int, operands: tuple[int, int], *, heldout: bool) -> list[Problem]:
    """Draw n different problems, which are all held out if `heldout`, else all for training."""
    seen: dict[str, None] = {}
    while len(seen) < n:
        expression = make_expression(rng, operands)
        if is_set_aside(expression) == heldout:
            seen[expression] = None
    return [Problem(text, text + "=", str(value(text))) for text in seen]


def heldout(operands: tuple[int, int], n: int) -> list[Problem]:
    """Return the first n held-out problems of a size, always the same ones."""
    return draw(random.Random(f"heldout {operands}"), n, operands, heldout=True)


@register_task("chain")
def chain_task() -> Task:
    """Built in: arithmetic modulo 10, rewritten one operator at a time."""
    drawn = partial(draw, operands=CHAIN, heldout=False)
    return Task("chain", DOMAIN, draw=drawn, draw_heldout=partial(heldout, CHAIN))


@register_benchmark("chain")
def chain_benchmark() -> Benchmark:
    return Benchmark("chain", DOMAIN, lambda n: heldout(CHAIN, n or 512), max_tokens=64)


@register_benchmark("chain-long")
def chain_long() -> Benchmark:
    """Built in: chains of 9 or 10 operands, more than the built-in model was trained on."""
    return Benchmark("chain-long", DOMAIN, lambda n: heldout(CHAIN_LONG, n or 512), max_tokens=128)

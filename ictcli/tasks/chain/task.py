"""The built-in task `chain` and its two benchmarks; see `ictcli.tasks.chain.problem`."""

from __future__ import annotations

import random

from ictcli.rewards import find_verifier
from ictcli.seeds import seed_of
from ictcli.tasks.chain import problem as chain
from ictcli.tasks.registry import register_benchmark, register_task
from ictcli.tasks.task import Benchmark, Domain, Task
from ictcli.types import Problem

DOMAIN = Domain(find_verifier("chain"), words=False, forks=chain.forks)
HELDOUT = 4096
"""Number of held-out problems."""


def draw(rng: random.Random, operands: tuple[int, int], n: int, *, heldout: bool) -> list[Problem]:
    """n different problems, held out or not."""
    seen: dict[str, None] = {}
    while len(seen) < n:
        expression = chain.make_expression(rng, operands)
        if chain.is_heldout(expression) == heldout:
            seen[expression] = None
    return [Problem(text, text + "=", str(chain.value(text))) for text in seen]


def heldout(operands: tuple[int, int], n: int) -> list[Problem]:
    """The first n held-out problems of a size, always the same ones."""
    return draw(random.Random(f"heldout {operands}"), operands, n, heldout=True)


@register_task("chain")
def chain_task() -> Task:
    def batch(seed: int, step: int, n: int) -> list[Problem]:
        rng = random.Random(seed_of(seed, "problems", step))
        return draw(rng, chain.CHAIN, n, heldout=False)

    return Task("chain", DOMAIN, batch, lambda n: heldout(chain.CHAIN, min(n, HELDOUT)))


@register_benchmark("chain")
def chain_benchmark() -> Benchmark:
    return Benchmark("chain", DOMAIN, lambda n: heldout(chain.CHAIN, n or 512), max_tokens=64)


@register_benchmark("chain-long")
def chain_long() -> Benchmark:
    return Benchmark(
        "chain-long", DOMAIN, lambda n: heldout(chain.CHAIN_LONG, n or 512), max_tokens=128
    )

"""The tasks and benchmarks of `ledger`, one of each by setting."""

import random
from dataclasses import replace
from functools import partial
from itertools import islice

from ictcli.recipe.tables import ColumnSettings
from ictcli.rewards import Verifier, find_verifier
from ictcli.seeds import seed_of
from ictcli.tasks.custom import read_custom
from ictcli.tasks.ledger.problem import decisions, forks, ledgers
from ictcli.tasks.ledger.words import SETTINGS
from ictcli.tasks.registry import register_benchmark, register_task
from ictcli.tasks.split import split_task
from ictcli.tasks.task import Benchmark, Domain, Task
from ictcli.types import Problem

HELDOUT = 4096
"""Number of held-out problems of each setting."""

DOMAIN = Domain(find_verifier("integer"), forks=forks, decisions=decisions)
"""The answer stands after the last `####`."""


def draw(name: str, rng: random.Random, n: int, *, heldout: bool) -> list[Problem]:
    """n different problems of a setting, held out or not."""
    drawn = islice(ledgers(rng, SETTINGS[name], heldout=heldout), n)
    return [Problem(prompt, prompt, str(ledger.answer)) for prompt, ledger in drawn]


def heldout(name: str, n: int) -> list[Problem]:
    """The first n held-out problems of a setting, always the same ones."""
    return draw(name, random.Random(f"heldout {name}"), n, heldout=True)


def ledger_task(
    name: str,
    data: str | None = None,
    verify: Verifier | None = None,
    columns: ColumnSettings | None = None,
) -> Task:
    """The task of a setting; `data` is a file of problems in its words, in place of those it makes
    itself."""
    if data is not None:
        task = split_task(name, read_custom(data, columns), verify or find_verifier("integer"))
        return replace(task, domain=DOMAIN)

    def batch(seed: int, step: int, n: int) -> list[Problem]:
        return draw(name, random.Random(seed_of(seed, "problems", step)), n, heldout=False)

    return Task(name, DOMAIN, batch, lambda n: heldout(name, min(n, HELDOUT)))


def ledger_benchmark(name: str) -> Benchmark:
    return Benchmark(name, DOMAIN, lambda n: heldout(name, n or 512), max_tokens=300)


for _name in SETTINGS:
    register_task(_name)(partial(ledger_task, _name))
    register_benchmark(_name)(partial(ledger_benchmark, _name))

"""Problems of the task `ledger` and their solutions.

A prompt is a ledger: who works how many days on what. The question is how many days the sum is past
full weeks (the sum modulo 7). A response counts the days along the week, from the day that the
question names, with one line per entry:

    prompt    Nora mends nets for two days, sails for five days and boots for one day. How many
              days past full weeks is that? Begin on Tuesday.
    response  Say Nora begins on Tuesday.
              Then nets for two days, so it is Thursday.
              Next sails for five days, hence it is Tuesday.
              Later boots for one day, so it is Wednesday.
              From Tuesday to Wednesday is one day.
              #### 1

One word is one token. The only choice that matters is the day in an entry's line. A wrong response
counts the start day as well.

Source: ours.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from ictcli.recipe.data import HOLDOUT, ColumnSettings, HubSettings
from ictcli.rewards import Verifier, find_verifier
from ictcli.tasks.custom import read_custom
from ictcli.tasks.registry import register_benchmark, register_task
from ictcli.tasks.split import split_task
from ictcli.tasks.task import Benchmark, Domain, Task, is_set_aside
from ictcli.types import Problem

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six")

NAMES = (
    "Ada", "Ben", "Clara", "Edith", "Hugo", "Iris", "Jonas", "Lena", "Mira", "Nora", "Otto", "Tom",
)  # fmt: skip
TRADES = {
    "bakes": ("bread", "buns", "cakes", "pies", "rolls", "tarts"),
    "mends": ("boots", "chairs", "clocks", "fences", "nets", "sails"),
    "paints": ("boats", "carts", "doors", "gates", "signs", "walls"),
    "picks": ("apples", "beans", "grapes", "nuts", "pears", "plums"),
    "sells": ("figs", "honey", "oil", "salt", "tea", "wool"),
    "sews": ("bags", "coats", "flags", "gloves", "hats", "shirts"),
}
"""What a person does, and to which things; all entries of a ledger have the same trade."""


@dataclass(frozen=True)
class Setting:
    """The form of the problems of one task."""

    ask: str = ""
    """Last sentence of the prompt, which tells the model the form of the solution."""
    entries: tuple[int, int] = (2, 4)
    """Smallest and largest number of entries. A response has to get one day right per entry."""


SETTINGS = {
    "ledger": Setting(),
    "ledger-easy": Setting(" Tell it in full.", (3, 3)),
    "ledger-echo": Setting(" Tell it in full and repeat.", (3, 3)),
    "ledger-drift": Setting(" Tell it in full and wander.", (3, 3)),
}
"""Settings by task name. The built-in model was trained on all of them."""


@dataclass(frozen=True)
class Ledger:
    """A problem: the entries of one person's ledger, and the day on which the first begins."""

    name: str
    trade: str
    entries: tuple[tuple[str, int], ...]
    """(what, days) each; days from 1 to 6."""
    start: str
    """Day on which the first entry begins. The answer does not depend on it."""

    @property
    def answer(self) -> int:
        """Days past full weeks, 0 to 6."""
        return sum(days for _, days in self.entries) % 7


def make_ledger(rng: random.Random, setting: Setting) -> Ledger:
    """Draw a problem: name, trade, number of entries, their days and the start are uniform."""
    trade = rng.choice(list(TRADES))
    goods = rng.sample(TRADES[trade], rng.randint(*setting.entries))
    entries = tuple((good, rng.randint(1, 6)) for good in goods)
    return Ledger(rng.choice(NAMES), trade, entries, start=rng.choice(DAYS))


def prompt_of(ledger: Ledger, setting: Setting) -> str:
    """Return the problem in words."""
    *most, last = (f"{good} for {days_in_words(days)}" for good, days in ledger.entries)
    return (
        f"{ledger.name} {ledger.trade} {', '.join(most)} and {last}. "
        f"How many days past full weeks is that? Begin on {ledger.start}.{setting.ask}"
    )


def days_in_words(number: int) -> str:
    return f"{NUMBERS[number]} day{'s' * (number != 1)}"


def ledgers(rng: random.Random, setting: Setting, *, heldout: bool) -> Iterator[tuple[str, Ledger]]:
    """Yield different (prompt, problem) without end: held out if `heldout`, else for training."""
    seen: set[str] = set()
    while True:
        ledger = make_ledger(rng, setting)
        prompt = prompt_of(ledger, setting)
        if is_set_aside(prompt) == heldout and prompt not in seen:
            seen.add(prompt)
            yield prompt, ledger


ABOUT = "Built in: how many days past full weeks a ledger in words comes to."
DOMAIN = Domain(find_verifier("integer"))
"""The answer is the text after the last `####`."""


def draw(name: str, rng: random.Random, n: int, *, heldout: bool) -> list[Problem]:
    """Draw n different problems of a task: all held out if `heldout`, else all for training."""
    drawn = islice(ledgers(rng, SETTINGS[name], heldout=heldout), n)
    return [Problem(prompt, prompt, str(ledger.answer)) for prompt, ledger in drawn]


def heldout(name: str, n: int) -> list[Problem]:
    """Return the first n held-out problems of a task, always the same ones."""
    return draw(name, random.Random(f"heldout {name}"), n, heldout=True)


def ledger_task(
    name: str,
    data: str | None = None,
    verify: Verifier | None = None,
    columns: ColumnSettings | None = None,
    hub: HubSettings | None = None,
    holdout: int | None = HOLDOUT,
) -> Task:
    """Return the task of `SETTINGS[name]`, with the problems of `data` if it is given."""
    if data is not None:
        problems = read_custom(data, columns, hub)
        task = split_task(name, problems, verify or find_verifier("integer"), holdout)
        return replace(task, domain=DOMAIN)
    drawn = partial(draw, name, heldout=False)
    return Task(name, DOMAIN, draw=drawn, draw_heldout=partial(heldout, name))


def ledger_benchmark(name: str) -> Benchmark:
    """Return the benchmark of a task's held-out problems."""
    return Benchmark(name, DOMAIN, lambda n: heldout(name, n or 512), max_tokens=300)


for _name, _setting in SETTINGS.items():
    _about = f"{ABOUT} Each asks:{_setting.ask}" if _setting.ask else ABOUT
    register_task(_name, _about)(partial(ledger_task, _name))
    register_benchmark(_name)(partial(ledger_benchmark, _name))

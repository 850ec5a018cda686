"""Tasks `gym:NAME`: problems drawn from a generator of reasoning-gym, with one seed for training
and another for the held-out problems."""

import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec

from ictcli.errors import UserError, install, reason_of
from ictcli.recipe.generator import joined, parted
from ictcli.rewards import find_verifier
from ictcli.rewards.verifiers import OPTIONAL
from ictcli.tasks.golds import LAST_NUMBER
from ictcli.tasks.split import key_of
from ictcli.tasks.task import BOXED, Domain, Task
from ictcli.types import Problem

HELDOUT_SEED = 1 << 31
"""Seed of the held-out problems; problem i is drawn with seed + i. Training seeds are smaller."""
BY_HASH = (
    *("codeio", "isomorphic_strings", "knight_swap", "list_functions"),
    *("polynomial_multiplication", "ransom_note", "word_ladder"),
)
"""Generators of version 0.1.25 whose problems depend on Python's hash seed."""
NUMBERS = "Reason step by step, and end with the answer as a number."
"""Suffix of the question if all answers are numbers: a response's last number is its answer."""
LINES = "Reason step by step, and end with a line that holds the answer alone."
LAST_LINE = (
    r"(?is)\A(?:.*\\boxed\{(.*)\}|.*####[ ]*([^\n]*\S)|"
    r"(?:.*\n)?[ \t]*(?:\*\*)?(?:(?:the )?(?:final )?answer(?: is)?:[ *]*)?"
    r"([^\n]*?\S)(?:\*\*)?\s*\Z)"
)
"""Suffix of the question, and the answer pattern, if all answers are lines of text. The pattern
matches the last box, else the text after the last `####`, else the last line."""
LEAST = 8
"""Smallest number of different problems to train on."""


def is_installed() -> bool:
    return find_spec(OPTIONAL["gym"].library) is not None


@lru_cache(maxsize=8)
def gym_task(name: str) -> Task:
    """Return the task `gym:NAME:key=value:...`: `size` problems to train on, and up to a quarter as
    many held out. Held-out problems are not trained on, so fewer are drawn if many of them are
    among the problems to train on. The task depends only on the name, its options and the library's
    version. UserError if there is no such generator, it fails, or the library is missing."""
    name = joined(*parted(name))
    if not is_installed():
        raise UserError(
            f"The task {name} needs reasoning-gym, which is not installed.", install("gym")
        )
    from ictcli.rewards.gym import chosen, options_of  # takes seconds

    kind, options = chosen(name)
    seed, size = ({**options_of(kind), **options}[key] for key in ("seed", "size"))
    if kind in BY_HASH and sys.flags.hash_randomization:
        raise UserError(
            f"The problems of gym:{kind} differ from process to process: they depend on Python's "
            "hash seed.",
            "export PYTHONHASHSEED=0 makes them the same",
        )
    if size < LEAST or not 0 <= seed <= HELDOUT_SEED - size:
        raise UserError(
            f"{name}: size must be {LEAST} or more, and seed + size at most {HELDOUT_SEED}.",
            f"for example gym:{kind}:seed=1:size=500",
        )
    different = dict(_different(name, "train", seed, size))
    drawn = _different(name, "heldout", HELDOUT_SEED, size // 4)
    held: list[Problem] = []
    shared = 0
    for key, problem in drawn:
        shared += key in different
        if 4 * shared > len(different):
            break
        held.append(problem)
    if len(different) < LEAST or not held:
        raise UserError(
            f"{name} makes only {len(different)} different problems.",
            f"ictcli tasks show gym:{kind}",
        )
    train, repeated = tuple(different.values()), size - len(different)
    note = f"{repeated:,} of {size:,} problems drawn from {name} left out: they repeat others."
    seeds = {"train": seed, "heldout": HELDOUT_SEED}
    golds = [problem.gold for problem in (*train, *held)]
    form = (LINES, LAST_LINE) if all(gold.isprintable() for gold in golds) else (BOXED, None)
    if all(re.fullmatch(LAST_NUMBER, gold) for gold in golds):
        form = NUMBERS, LAST_NUMBER
    domain = Domain(find_verifier("gym"), form[0], pattern=form[1])
    return Task(
        name,
        domain,
        train,
        tuple(held),
        source={"generator": name, "version": version("reasoning-gym"), "seeds": seeds},
        notes=(note,) if repeated else (),
        left_out={"repeated": repeated} if repeated else {},
    )


def _different(name: str, part: str, seed: int, size: int) -> Iterator[tuple[str, Problem]]:
    """Yield (key, problem) of the problems drawn with a seed, without repeats. UserError if the
    generator fails, or if answers are not text."""
    from ictcli.rewards.gym import generator

    entries, seen = generator(name, seed, size), set[str]()
    for i in range(size):
        try:
            entry = entries[i]
        except Exception as error:
            raise UserError(
                f"{name} fails at its problem {i} of seed {seed}: {reason_of(error)}.",
                "other options, or another generator: ictcli tasks ls",
            ) from error
        question, answer = entry["question"], entry["answer"]
        if not (isinstance(question, str) and isinstance(answer, str) and answer.strip()):
            raise UserError(
                f"The problems of {name} have no text as their answer.", "ictcli tasks ls"
            )
        key = key_of(question)
        if key not in seen:
            seen.add(key)
            columns = {"gym": name, "seed": seed, "size": size, "index": i}
            yield key, Problem(f"{part}-{i}", question, answer, columns=columns)

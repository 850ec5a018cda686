"""Tasks from data sets: GSM8K and MATH, and what is made of any rows.

One problem in sixteen, by the checksum of its prompt, is held out of training.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.files import encodable
from ictcli.rewards import Verifier, as_verifier, find_verifier
from ictcli.rewards.answers import boxed
from ictcli.rows import Row, Rows, text
from ictcli.tasks import BOXED, Benchmark, Domain, Task, register_task, with_train
from ictcli.tasks.hub import rows_of
from ictcli.tasks.split import is_heldout
from ictcli.types import Problem

SHOWN = 5
"""Ids that a note names."""
CALCULATOR = re.compile(r"<<[^<>\n]*>>")
"""GSM8K's notes of what a calculator is to work out."""


def judged(
    name: str, problems: Sequence[Problem], verify: Verifier, unsolved: Collection[str] = ()
) -> tuple[list[Problem], tuple[str, ...]]:
    """The problems whose golds the verifier can read, and a note of the others: their number and
    the first ids. `unsolved`: ids of problems that came without an answer. UserError where none is
    left."""
    readable = {gold: verify.readable(gold) for gold in dict.fromkeys(p.gold for p in problems)}
    out = [p.id for p in problems if p.id in unsolved or not readable[p.gold]]
    if not out:
        return list(problems), ()
    if len(out) == len(problems):
        raise UserError(
            f"The verifier {verify.name} can read none of the golds of {name}.",
            "look at its golds, or name another verifier",
        )
    dropped = set(out)
    more = f" and {len(out) - SHOWN} more" if len(out) > SHOWN else ""
    note = (
        f"{len(out)} of the {len(problems)} problems of {name} left out, their golds being "
        f"unreadable to the verifier {verify.name}: {', '.join(out[:SHOWN])}{more}."
    )
    return [p for p in problems if p.id not in dropped], (note,)


def split_task(
    name: str,
    domain: Domain,
    problems: Sequence[Problem],
    rows: Rows,
    unsolved: Collection[str] = (),
    *,
    solutions: Mapping[str, str] | None = None,
    difficulty: Mapping[str, float] | None = None,
) -> Task:
    """A task over a finite set of problems, its held-out part chosen by checksum; `rows` are what
    they were made of, `solutions` and `difficulty` of their ids."""
    kept, notes = judged(name, problems, as_verifier(domain.verify), unsolved)
    held = [p for p in kept if is_heldout(p.prompt)]
    rest = [p for p in kept if not is_heldout(p.prompt)]
    if not held or not rest:
        raise UserError(
            f"The data set {name} is too small to hold a part of it out: {len(kept)} problems.",
            "a few dozen problems at least are needed",
        )
    task = Task(
        name,
        domain,
        lambda seed, step, n: [],
        lambda n: held[:n],
        tuple(kept),
        rows.source,
        (*rows.notes, *notes),
        solutions=solutions or {},
        difficulty=difficulty or {},
    )
    return with_train(task, rest)


@register_task("gsm8k")
def gsm8k(data: str | None = None, verify: Verifier | None = None) -> Task:
    """openai/gsm8k, train: 7,473 word problems with integer answers behind `####`."""
    rows = rows_of("gsm8k-train", data)
    problems: list[Problem] = []
    solutions: dict[str, str] = {}
    for i, row in enumerate(rows.rows):
        id_, answer = f"gsm8k-train-{i}", text(row, "answer")
        problems.append(Problem(id_, text(row, "question"), behind(answer)))
        solutions[id_] = worked(answer, problems[-1].gold)
    domain = Domain(verify or find_verifier("integer"), BOXED)
    return split_task("gsm8k", domain, problems, rows, solutions=solutions)


@register_task("math")
def math(data: str | None = None, verify: Verifier | None = None) -> Task:
    """DigitalLearningGmbH/MATH-lighteval, train: 7,500 problems, gold the solution's last box."""
    rows = rows_of("math-train", data)
    problems: list[Problem] = []
    solutions: dict[str, str] = {}
    levels: dict[str, float] = {}
    for i, row in enumerate(rows.rows):
        id_, solution = f"math-train-{i}", text(row, "solution")
        problems.append(Problem(id_, text(row, "problem"), boxed(solution) or ""))
        solutions[id_] = solution
        level = str(row.columns.get("level")).removeprefix("Level ")
        if level.isdigit():  # not of every row: `Level ?`
            levels[id_] = float(level)
    unsolved = {p.id for p in problems if not p.gold}
    domain = Domain(verify or find_verifier("math"), BOXED)
    return split_task(
        "math", domain, problems, rows, unsolved, solutions=solutions, difficulty=levels
    )


def behind(answer: str) -> str:
    """What follows `####`, or all of it."""
    return answer.rpartition("####")[2].strip()


def worked(text: str, gold: str) -> str:
    """A worked solution that ends as answers are asked for: in a box."""
    if boxed(text) is not None:
        return text
    reasons, marked, _ = text.rpartition("####")
    reasons = CALCULATOR.sub("", reasons).strip() if marked else ""
    return (f"{reasons}\n" if reasons else "") + f"The answer is \\boxed{{{gold}}}."


def choices_of(row: Row, name: str = "choices") -> tuple[str, ...]:
    """The texts of a column of choices, spaces around them left out: a list, or one as JSON."""
    found = row.get(name)
    if isinstance(found, str) and found.lstrip().startswith("["):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            found = None
    texts = cast("list[Any]", found) if isinstance(found, list) else []
    if not 2 <= len(texts) <= 26 or not all(isinstance(x, str | int | float) for x in texts):
        raise UserError(
            f"{row.where} has no list of choices.", f'"{name}": ["...", "..."], 2 to 26 of them'
        )
    return tuple(encodable(str(choice)).strip() for choice in texts)


def letter_of(row: Row, choices: Sequence[str], *names: str) -> str:
    """The gold letter in the first of those columns that is there: a letter, or an index from 0."""
    found = _place(behind(text(row, *names)), len(choices))
    if found is None:
        raise _none_of(row, choices)
    return letter(found)


def own_letter_of(row: Row, choices: Sequence[str], *names: str, key: str = "") -> str:
    """The same of a data set whose author we do not know: the gold may be the text of a choice too.
    UserError where it is the text of one, and the letter or index of another."""
    given = text(row, *names, key=key)
    found = _place(behind(given), len(choices))
    same = [i for i, choice in enumerate(choices) if choice in (given.strip(), behind(given))]
    if not same:
        if found is None:
            raise _none_of(row, choices)
        return letter(found)
    if len(same) > 1 and found not in same:
        raise UserError(
            f"{row.where} has a gold that is the text of {len(same)} of its choices.",
            f"give its letter, A to {letter(len(choices) - 1)}",
        )
    if found is not None and found not in same:
        digit = behind(given).strip("() .").isdigit()
        raise UserError(
            f"{row.where} has a gold, {given.strip()}, that is the {'index' if digit else 'letter'}"
            f" of one of its choices and the text of another.",
            f"give letters, A to {letter(len(choices) - 1)}"
            if digit
            else f"give an index, 0 to {len(choices) - 1}",
        )
    return letter(same[0] if found is None else found)


def letter(place: int) -> str:
    """A of 0."""
    return chr(ord("A") + place)


def _place(given: str, n: int) -> int | None:
    """The place of a choice from 0, by its letter or index; None where it is neither."""
    given = given.strip("() .").upper()
    if len(given) == 1 and 0 <= ord(given) - ord("A") < n:
        return ord(given) - ord("A")
    if given.isascii() and given.isdigit() and int(given[:4]) < n:
        return int(given[:4])
    return None


def _none_of(row: Row, choices: Sequence[str]) -> UserError:
    last = len(choices) - 1
    return UserError(
        f"{row.where} has a gold that is none of its {len(choices)} choices.",
        f"a letter, A to {letter(last)}, or an index, 0 to {last}",
    )


def with_choices(question: str, choices: Sequence[str]) -> str:
    """The question, then a line for each choice: `(A) text`."""
    lines = (f"({letter(place)}) {choice}" for place, choice in enumerate(choices))
    return "\n".join((question, *lines))


def listed(
    name: str,
    domain: Domain,
    problems: Sequence[Problem],
    rows: Rows,
    unsolved: Collection[str] = (),
) -> Benchmark:
    """A benchmark over a finite set of problems; `rows` are what they were made of."""
    kept, notes = judged(name, problems, as_verifier(domain.verify), unsolved)
    more = (*rows.notes, *notes)
    return Benchmark(name, domain, lambda n: kept[:n], source=rows.source, notes=more)

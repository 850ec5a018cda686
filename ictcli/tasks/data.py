"""Tasks from data sets: GSM8K and MATH, and JSONL files of one's own.

One problem in sixteen, by the checksum of its prompt, is held out of training.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Sequence
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.files import encodable
from ictcli.rewards import Verifier, as_verifier, find_verifier
from ictcli.rewards.answers import boxed
from ictcli.tasks import BOXED, Benchmark, Domain, Task, register_task, shuffled_batch
from ictcli.tasks.hub import Row, Rows, read_file, rows_of
from ictcli.types import Problem

HELDOUT_DIVISOR = 16
SHOWN = 5
"""Ids that a note names."""
BARE = re.compile(r"[-+]?\d[\d,]*")
"""An integer and nothing else: a unit or % beside it may matter, to which `integer` is blind."""


def is_heldout(prompt: str) -> bool:
    return zlib.crc32(prompt.encode()) % HELDOUT_DIVISOR == 0


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
) -> Task:
    """A task over a finite set of problems, its held-out part chosen by checksum; `rows` are what
    they were made of."""
    kept, notes = judged(name, problems, as_verifier(domain.verify), unsolved)
    held = [p for p in kept if is_heldout(p.prompt)]
    rest = [p for p in kept if not is_heldout(p.prompt)]
    if not held or not rest:
        raise UserError(
            f"The data set {name} is too small to hold a part of it out: {len(kept)} problems.",
            "a few dozen problems at least are needed",
        )
    return Task(
        name,
        domain,
        lambda seed, step, n: shuffled_batch(rest, seed, step, n),
        lambda n: held[:n],
        tuple(kept),
        rows.source,
        (*rows.notes, *notes),
    )


@register_task("gsm8k")
def gsm8k(data: str | None = None, verify: Verifier | None = None) -> Task:
    """openai/gsm8k, train: 7,473 word problems with integer answers behind `####`."""
    rows = rows_of("gsm8k-train", data)
    problems = [
        Problem(f"gsm8k-train-{i}", text(row, "question"), behind(text(row, "answer")))
        for i, row in enumerate(rows.rows)
    ]
    return split_task("gsm8k", Domain(verify or find_verifier("integer"), BOXED), problems, rows)


@register_task("math")
def math(data: str | None = None, verify: Verifier | None = None) -> Task:
    """DigitalLearningGmbH/MATH-lighteval, train: 7,500 problems, gold the solution's last box."""
    rows = rows_of("math-train", data)
    problems = [
        Problem(f"math-train-{i}", text(row, "problem"), boxed(text(row, "solution")) or "")
        for i, row in enumerate(rows.rows)
    ]
    unsolved = {p.id for p in problems if not p.gold}
    domain = Domain(verify or find_verifier("math"), BOXED)
    return split_task("math", domain, problems, rows, unsolved)


def text(row: Row, *names: str) -> str:
    """The first of those columns that is there, as text."""
    for name in names:
        value = row.columns.get(name)
        if isinstance(value, str | int | float):
            return encodable(str(value))
    hint = 'a line is {"prompt": "...", "gold": "..."}' if {"prompt", "gold"} & {*names} else ""
    raise UserError(
        f"{row.where} has no {' or '.join(names)}.", hint or "each row needs one, as text"
    )


def behind(answer: str) -> str:
    """What follows `####`, or all of it."""
    return answer.rpartition("####")[2].strip()


def choices_of(row: Row) -> tuple[str, ...]:
    """The texts of a `choices` column, spaces around them left out."""
    found = row.columns.get("choices")
    texts = cast("list[Any]", found) if isinstance(found, list) else []
    if not 2 <= len(texts) <= 26 or not all(isinstance(x, str | int | float) for x in texts):
        raise UserError(
            f"{row.where} has no list of choices.", '"choices": ["...", "..."], 2 to 26 of them'
        )
    return tuple(encodable(str(choice)).strip() for choice in texts)


def letter_of(row: Row, choices: Sequence[str], *names: str) -> str:
    """The gold letter in the first of those columns that is there: a letter, or an index from 0."""
    found = behind(text(row, *names)).strip("() .").upper()
    letters = [chr(ord("A") + place) for place in range(len(choices))]
    if found in letters:
        return found
    if found.isascii() and found.isdigit() and int(found[:4]) < len(letters):
        return letters[int(found[:4])]
    raise UserError(
        f"{row.where} has a gold that is none of its {len(choices)} choices.",
        f"a letter, A to {letters[-1]}, or an index, 0 to {len(letters) - 1}",
    )


def with_choices(question: str, choices: Sequence[str]) -> str:
    """The question, then a line for each choice: `(A) text`."""
    lines = (f"({chr(ord('A') + place)}) {choice}" for place, choice in enumerate(choices))
    return "\n".join((question, *lines))


def read_jsonl(name: str) -> tuple[list[Problem], set[str], str, Rows]:
    """Problems of a file with one object a line: prompt (or question, problem) and gold (or answer,
    or a solution with its answer in a box); choices and an id where there are some. Also the ids
    of those whose solution has no box, and the kind of verifier they need: choice where there are
    choices, integer where all golds are integers, else math."""
    rows = read_file(name)
    chosen = [row for row in rows.rows if row.columns.get("choices") is not None]
    if 0 < len(chosen) < len(rows.rows):
        row = next(row for row in rows.rows if row.columns.get("choices") is None)
        raise UserError(f"{row.where} has no choices, and others have.", "put them in two files")
    problems: dict[str, Problem] = {}
    unsolved: set[str] = set()
    for row in rows.rows:
        there = {name for name, value in row.columns.items() if value is not None}
        id_ = text(row, "id") if "id" in there else str(row.number)
        if id_ in problems:
            raise UserError(f"{row.where} has the id of an earlier problem.", "each needs its own")
        prompt = text(row, "prompt", "question", "problem")
        gold, choices = "", ()
        if chosen:
            choices = choices_of(row)
            prompt, gold = with_choices(prompt, choices), letter_of(row, choices, "gold", "answer")
        elif "solution" in there and not {"gold", "answer"} & there:
            gold = boxed(text(row, "solution")) or ""
            if not gold:
                unsolved.add(id_)
        else:
            gold = behind(text(row, "gold", "answer"))
        problems[id_] = Problem(id_, prompt, gold, choices)
    golds = {p.gold for p in problems.values() if p.id not in unsolved}
    kind = "choice" if chosen else "integer" if all(map(BARE.fullmatch, golds)) else "math"
    return list(problems.values()), unsolved, kind, rows


def jsonl_task(name: str, verify: Verifier | None = None) -> Task:
    problems, unsolved, kind, rows = read_jsonl(name)
    return split_task(name, Domain(verify or find_verifier(kind), BOXED), problems, rows, unsolved)


def jsonl_benchmark(name: str) -> Benchmark:
    problems, unsolved, kind, rows = read_jsonl(name)
    return listed(name, Domain(find_verifier(kind), BOXED), problems, rows, unsolved)


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

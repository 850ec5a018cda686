"""Data sets of one's own: local files and any data set of the hub, by columns a user names."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from ictcli.errors import UserError
from ictcli.recipe.settings import ColumnSettings, HubSettings
from ictcli.rewards import Verifier, find_verifier
from ictcli.rewards.answers import boxed
from ictcli.rows import PROMPTS, Row, Rows, is_file_name, read_file, text
from ictcli.tasks import BOXED, Benchmark, Domain, Task
from ictcli.tasks.data import (
    behind,
    choices_of,
    listed,
    own_letter_of,
    split_task,
    with_choices,
    worked,
)
from ictcli.tasks.hub import load
from ictcli.tasks.sources import Source
from ictcli.types import Problem

HUB = "hub:"
BARE = re.compile(r"[-+]?\d[\d,]*")
"""An integer and nothing else: a unit or % beside it may matter, to which `integer` is blind."""
GOLDS = ("gold", "answer")


@dataclass(frozen=True)
class Own:
    """What was read of a data set."""

    problems: list[Problem]
    unsolved: set[str]
    """Ids of those whose solution has no box."""
    kind: str
    """The verifier they need: choice where there are choices, integer where all golds are integers,
    else math."""
    rows: Rows
    solutions: dict[str, str]
    difficulty: dict[str, float]


def is_own(name: str) -> bool:
    """Whether a task or benchmark of that name is a data set of one's own."""
    return is_file_name(name) or name.startswith(HUB)


def read_own(
    name: str,
    columns: ColumnSettings | None = None,
    hub: HubSettings | None = None,
    split: str = "",
) -> Own:
    """Problems of a .jsonl, .csv or .parquet file or of `hub:owner/name`, there of `split` unless
    `hub` names another. Without names in `columns` the prompt is in prompt, question or problem,
    and the gold in gold or answer, or in the box of a solution; choices and an id in columns of
    these names where there are some. UserError where a named column is not there."""
    columns, hub = columns or ColumnSettings(), hub or HubSettings()
    rows = _rows(name, hub, split)
    for column in filter(None, columns.model_dump().values()):
        if column not in rows.columns:
            raise UserError(
                f"{name} has no column {column!r}; it has {', '.join(rows.columns) or 'none'}.",
                "[columns] in the recipe names them (ictcli eval: --columns gold=answer)",
            )
    choices_in = columns.choices or "choices"
    chosen = [row for row in rows.rows if row.get(choices_in) is not None]
    if 0 < len(chosen) < len(rows.rows):
        row = next(row for row in rows.rows if row.get(choices_in) is None)
        raise UserError(f"{row.where} has no choices, and others have.", "put them in two files")
    problems: dict[str, Problem] = {}
    unsolved: set[str] = set()
    solutions: dict[str, str] = {}
    difficulty: dict[str, float] = {}
    for row in rows.rows:
        id_ = _id(row, columns)
        if id_ in problems:
            raise UserError(f"{row.where} has the id of an earlier problem.", "each needs its own")
        prompt = text(row, *_names(columns.prompt, PROMPTS), key="" if columns.prompt else "prompt")
        golds, choices = _names(columns.gold, GOLDS), ()
        there = set(row.there)
        key = "" if columns.gold else "gold"
        if chosen:
            choices = choices_of(row, choices_in)
            prompt = with_choices(prompt, choices)
            gold = own_letter_of(row, choices, *golds, key=key)
        elif "solution" in there and not {*golds} & there:
            gold = boxed(text(row, "solution")) or ""
            if not gold:
                unsolved.add(id_)
        else:
            gold = _answer(text(row, *golds, key=key))
        problems[id_] = Problem(id_, prompt, gold, choices)
        solutions[id_] = _solution(row, columns, golds, gold)
        if columns.difficulty is not None:
            difficulty[id_] = _difficulty(row, columns.difficulty)
    found = {p.gold for p in problems.values() if p.id not in unsolved}
    kind = "choice" if chosen else "integer" if all(map(BARE.fullmatch, found)) else "math"
    return Own(list(problems.values()), unsolved, kind, rows, solutions, difficulty)


def own_task(name: str, verify: Verifier | None, columns: ColumnSettings, hub: HubSettings) -> Task:
    own = read_own(name, columns, hub, "train")
    domain = Domain(verify or find_verifier(own.kind), BOXED)
    return split_task(
        name,
        domain,
        own.problems,
        own.rows,
        own.unsolved,
        solutions=own.solutions,
        difficulty=own.difficulty,
    )


def own_benchmark(name: str, columns: ColumnSettings, hub: HubSettings) -> Benchmark:
    own = read_own(name, columns, hub, "test")
    domain = Domain(find_verifier(own.kind), BOXED)
    return listed(name, domain, own.problems, own.rows, own.unsolved)


def _rows(name: str, hub: HubSettings, split: str) -> Rows:
    if not name.startswith(HUB):
        given = hub.model_dump(exclude_none=True)
        if given:
            raise UserError(
                f"hub.{next(iter(given))} is of a data set of the hub, and {name} is a file.",
                "task=hub:owner/name names one",
            )
        return read_file(name)
    path = name.removeprefix(HUB)
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", path):
        raise UserError(f"{name} names no data set of the hub.", "for example hub:openai/gsm8k")
    if Path(path).exists():  # `datasets` would load that
        raise UserError(
            f"{path} is a folder here, and {name} on the hub.", "work in another folder"
        )
    return load(Source(path, (hub.config or "",), hub.split or split, hub.revision, None))


def _names(given: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    return known if given is None else (given,)


def _id(row: Row, columns: ColumnSettings) -> str:
    if columns.id is not None:
        return text(row, columns.id)
    return text(row, "id") if row.get("id") is not None else str(row.number)


def _answer(given: str) -> str:
    """What stands behind `####`, or in the last box, or all of it."""
    if "####" in given:
        return behind(given)
    found = boxed(given)
    return given.strip() if found is None else found


def _solution(row: Row, columns: ColumnSettings, golds: tuple[str, ...], gold: str) -> str:
    """A response to show as an example: that of the column so named, else a worked solution, else
    the gold in a box."""
    if columns.response is not None:
        return text(row, columns.response)
    for name in ("solution", *golds):
        value = row.columns.get(name)
        if isinstance(value, str) and ("####" in value or boxed(value) is not None):
            return worked(value, gold)
    return worked("", gold)


def _difficulty(row: Row, name: str) -> float:
    found = text(row, name).strip()
    try:
        value = float(found)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{row.where} has a {name} that is no number: {found!r}.", "numbers only")
    return value

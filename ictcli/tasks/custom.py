"""Custom data sets: local files and any data set of the hub, by columns that the user names."""

import math
import re
from dataclasses import replace
from pathlib import Path

from ictcli.errors import UserError, nearest
from ictcli.recipe.data import ColumnSettings, HubSettings
from ictcli.rewards.answers import boxed
from ictcli.rows import PROMPTS, Row, Rows, is_file_name, read_file, text
from ictcli.tasks.golds import behind, choices_of, letter_of, with_choices, worked
from ictcli.tasks.hub import HubSource, load
from ictcli.tasks.split import ProblemSet
from ictcli.types import Problem

HUB = "hub:"
BARE = re.compile(r"[-+]?\d[\d,]*")
"""An integer alone. A unit or % next to it may matter, and the verifier `integer` ignores those."""
GOLDS = ("gold", "answer")


def is_custom(name: str) -> bool:
    """Whether the name of a task or benchmark is a custom data set: a file or `hub:owner/name`."""
    return is_file_name(name) or name.startswith(HUB)


def read_custom(
    name: str,
    columns: ColumnSettings | None = None,
    hub: HubSettings | None = None,
    split: str = "",
    usual: ColumnSettings | None = None,
) -> ProblemSet:
    """The problems of a .jsonl, .csv or .parquet file, or of `hub:owner/name` (from `split`, unless
    `hub` names another).

    `columns` names the columns, and `usual` those to take where they are there. By default the
    prompt is in prompt, question or problem; the gold in gold or answer, or in the box of a
    solution; choices and ids in columns of these names, if any. The verifier is choice if there are
    choices, integer if all golds are integers, else math. UserError if a named column is missing,
    or a row cannot be read."""
    rows = _rows(name, hub or HubSettings(), split)
    columns = _columns(name, rows, columns or ColumnSettings(), usual)
    has_choices = _has_choices(rows, columns.choices or "choices")
    problems: dict[str, Problem] = {}
    names = rows.columns
    unsolved: set[str] = set()
    for row in rows.rows:
        problem = _problem(row, columns, has_choices=has_choices)
        whole = len(row.columns) == len(names)
        its = row.columns if whole else {name: row.get(name) for name in names}
        problem = replace(problem, columns=its)
        if problem.id in problems:
            raise UserError(f"{row.where} has the id of an earlier problem.", "each needs its own")
        problems[problem.id] = problem
        if not problem.gold and _is_solved_alone(row, columns):
            unsolved.add(problem.id)
    if len(unsolved) == len(problems):
        raise UserError(
            f"No solution of {name} has an answer in a box.",
            "columns.gold=solution takes the whole text of that column as the answer",
        )
    golds = [problem.gold for problem in problems.values() if problem.id not in unsolved]
    kind = "choice" if has_choices else "integer" if all(map(BARE.fullmatch, golds)) else "math"
    return ProblemSet(list(problems.values()), rows, kind, unsolved)


def _columns(
    name: str, rows: Rows, columns: ColumnSettings, usual: ColumnSettings | None
) -> ColumnSettings:
    """The columns, each of which is there, filled by the usual ones that are."""
    for key, column in columns.model_dump(exclude_none=True).items():
        if column not in rows.columns:
            raise UserError(
                f"{name} has no column {column!r}{nearest(column, rows.columns)}; it has "
                f"{', '.join(rows.columns) or 'none'}.",
                f"columns.{key}=NAME names the column of the {key}",
            )
    there = {key: name for key, name in (usual or columns) if name in rows.columns}
    return columns.filled_by(ColumnSettings(**there))


def _has_choices(rows: Rows, column: str) -> bool:
    """Whether the rows have choices. UserError if only some have."""
    without = [row for row in rows.rows if row.get(column) is None]
    if 0 < len(without) < len(rows.rows):
        raise UserError(
            f"{without[0].where} has no choices, and others have.", "put them in two files"
        )
    return not without


def _problem(row: Row, columns: ColumnSettings, *, has_choices: bool) -> Problem:
    named = columns.id is not None or row.get("id") is not None
    id_ = text(row, columns.id or "id") if named else str(row.number)
    prompts = PROMPTS if columns.prompt is None else (columns.prompt,)
    prompt = text(row, *prompts, key="" if columns.prompt else "prompt")
    choices: tuple[str, ...] = ()
    if has_choices:
        choices = choices_of(row, columns.choices or "choices")
        prompt = with_choices(prompt, choices)
        gold = letter_of(row, choices, _gold(row, columns), texts=True)
    elif _is_solved_alone(row, columns):
        gold = boxed(text(row, "solution")) or ""
    else:
        gold = _answer(_gold(row, columns))
    difficulty = _difficulty(row, columns.difficulty) if columns.difficulty else None
    return Problem(id_, prompt, gold, choices, _solution(row, columns, gold), difficulty)


def _golds(columns: ColumnSettings) -> tuple[str, ...]:
    return GOLDS if columns.gold is None else (columns.gold,)


def _gold(row: Row, columns: ColumnSettings) -> str:
    return text(row, *_golds(columns), key="" if columns.gold else "gold")


def _is_solved_alone(row: Row, columns: ColumnSettings) -> bool:
    """Whether a row has a solution and no gold."""
    return "solution" in row.filled and not {*_golds(columns)} & {*row.filled}


def _rows(name: str, hub: HubSettings, split: str) -> Rows:
    if not name.startswith(HUB):
        for key in hub.model_dump(exclude_none=True):
            raise UserError(
                f"hub.{key} is of a data set of the hub, and {name} is a file.",
                "task=hub:owner/name names one",
            )
        return read_file(name)
    path = name.removeprefix(HUB)
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", path):
        raise UserError(f"{name} names no data set of the hub.", "for example hub:openai/gsm8k")
    if Path(path).exists():  # `datasets` would load the folder
        raise UserError(
            f"{path} is a folder here, and {name} on the hub.", "work in another folder"
        )
    return load(HubSource(path, hub.revision, (hub.config or "",), hub.split or split, None))


def _answer(gold: str) -> str:
    """The text after `####`, or in the last box, or all of it."""
    if "####" in gold:
        return behind(gold)
    answer = boxed(gold)
    return gold.strip() if answer is None else answer


def _solution(row: Row, columns: ColumnSettings, gold: str) -> str:
    """A response to show as an example: from the column `columns.response`, else a worked solution,
    else the gold in a box."""
    if columns.response is not None:
        return text(row, columns.response)
    for name in ("solution", *_golds(columns)):
        value = row.columns.get(name)
        if isinstance(value, str) and ("####" in value or boxed(value) is not None):
            return worked(value, gold)
    return worked("", gold)


def _difficulty(row: Row, name: str) -> float:
    number = text(row, name).strip()
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{row.where} has a {name} that is no number: {number!r}.", "numbers only")
    return value

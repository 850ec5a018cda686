"""Custom data sets: local files, folders that `datasets` saved and any data set of the hub, by
columns that the user names."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ictcli.errors import UserError, nearest
from ictcli.recipe.data import ColumnSettings, HubSettings
from ictcli.rewards.answers import boxed, matched
from ictcli.rewards.builtin import are_words
from ictcli.rows import CHATS, PROMPTS, Row, Rows, is_file_name, is_saved, read_file, text
from ictcli.tasks.chats import as_messages, as_text, messages_of, parted
from ictcli.tasks.golds import (
    ChoiceColumn,
    are_letters,
    behind,
    choice_column,
    choices_of,
    letter_of,
    with_choices,
    worked,
)
from ictcli.tasks.hub import HubSource, load
from ictcli.tasks.saved import read_saved
from ictcli.tasks.split import ProblemSet, copy_key
from ictcli.text import compiled, middle_cut
from ictcli.types import Problem, Turn

HUB = "hub:"
BARE = re.compile(r"[-+]?\d[\d,]*")
"""An integer alone. A unit or % next to it may matter, and the verifier `integer` ignores those."""
ASKED = (*PROMPTS, *CHATS)
GOLDS = ("gold", "answer")
MOST_LOST = 0.1
"""Share of rows or prompts that may be unreadable; with more the data is refused."""


def is_custom(name: str) -> bool:
    """Whether the name of a task or benchmark is a custom data set: a file, a folder that
    `datasets` saved, or `hub:owner/name`."""
    return is_file_name(name) or name.startswith(HUB)


def read_custom(
    name: str,
    columns: ColumnSettings | None = None,
    hub: HubSettings | None = None,
    split: str = "train",
    usual: ColumnSettings | None = None,
    *,
    whole: bool = True,
    rows: Rows | None = None,
) -> ProblemSet:
    """The problems of a .jsonl, .json, .csv or .parquet file, of a folder that `datasets` saved, or
    of `hub:owner/name` (from `split`, unless `hub` names another); or of these `rows` of it, which
    are taken out one by one, since a large file is not held twice.

    `columns` names the columns, and `usual` those to take where they are there. By default the
    prompt is in prompt, question or problem, as text or as messages, or in messages or
    conversations; the gold in gold or answer, in the box of a solution, or it is the last message
    of the assistant; choices and ids in columns of these names, if any, and the choices of golds
    that are letters in options. The verifier is choice if there are choices or all golds are
    letters, integer if all are integers, text if all are words, else math. Rows that cannot be read
    are left out, with a note. UserError if a named column is missing, or for
    the first such row where they are more than `MOST_LOST`. `whole`: each problem keeps its row,
    for reward functions."""
    rows = rows or read_rows(name, hub, split)
    columns = known_columns(name, rows, columns or ColumnSettings(), usual)
    check_asked(name, rows, columns, "gold", (*GOLDS, "solution"))
    choice = choices_in(rows, columns)
    problems: dict[str, Problem] = {}
    names = rows.columns if whole else ()
    unsolved: set[str] = set()
    lost: list[UserError] = []
    total = len(rows.rows)
    rows.rows.reverse()
    while rows.rows:
        row = rows.rows.pop()
        try:
            problem, solved = problem_of(row, columns, names, choice)
        except UserError as error:
            lost.append(error)
            continue
        if problem.id in problems:
            raise UserError(f"{row.where} has the id of an earlier problem.", "each needs its own")
        problems[problem.id] = problem
        if not solved:
            unsolved.add(problem.id)
    first: dict[str, Problem] = {}
    found = (
        (problem, first.setdefault(copy_key(problem), problem)) for problem in problems.values()
    )
    copies = [(problem.gold, one.gold) for problem, one in found if one is not problem]
    other = sum(gold.strip() != kept.strip() for gold, kept in copies)
    note = f"Rows that repeat a question, white space and case aside: {len(copies):,}"
    note += f", {other:,} of them with another gold." if other else "."
    notes = [*lost_notes(lost, total), *[note] * bool(copies)]
    rows = replace(rows, notes=(*rows.notes, *notes))
    if len(unsolved) == len(problems):
        if columns.gold_pattern:
            raise UserError(
                f"columns.gold_pattern finds an answer in no gold of {name}.",
                "leave it out, or change it: its first group is the answer",
            )
        raise UserError(
            f"No solution of {name} has an answer in a box.",
            "columns.gold=solution takes the whole text of that column as the answer",
        )
    golds = [problem.gold for problem in problems.values() if problem.id not in unsolved]
    kind = "choice" if choice else verifier_of(golds)
    return ProblemSet(list(problems.values()), rows, kind, unsolved, len(lost))


def verifier_of(golds: Sequence[str]) -> str:
    """The name of the verifier that judges answers with these golds."""
    if are_letters(golds):
        return "choice"
    if all(map(BARE.fullmatch, golds)):
        return "integer"
    return "text" if are_words(golds) else "math"


def lost_notes(lost: Sequence[UserError], total: int) -> list[str]:
    """A note on the rows that are left out, if there are any. UserError if they are too many."""
    if not lost:
        return []
    first, count = lost[0], f"{len(lost):,} of {total:,} rows"
    if len(lost) > MOST_LOST * total:
        message = first.message
        if len(lost) > 1:
            message = f"{message} {count} cannot be read, where at most a tenth may be left out."
        raise UserError(message, first.hint)
    return [f"{count} left out, as they cannot be read. The first: {first.message}"]


def known_columns(
    name: str, rows: Rows, columns: ColumnSettings, usual: ColumnSettings | None = None
) -> ColumnSettings:
    """The columns, each of which is there, filled by the usual ones that are."""
    known = rows.columns
    for key, column in columns.model_dump(exclude_none=True, exclude={"gold_pattern"}).items():
        if column not in known:
            raise UserError(
                f"{name} has no column {column!r}{nearest(column, known)}; it has "
                f"{', '.join(known) or 'none'}.",
                f"columns.{key}=NAME names it, or eval.columns.{key} and sft.columns.{key} for "
                "eval.bench and sft.data",
            )
    there = {k: name for k, name in (usual or columns) if name in known or k == "gold_pattern"}
    columns = columns.filled_by(ColumnSettings(**there))
    if columns.gold_pattern is not None:
        compiled(columns.gold_pattern)  # what is wrong with it is no fault of the rows
    return columns


def check_asked(
    name: str, rows: Rows, columns: ColumnSettings, answer: str, usual: Sequence[str]
) -> None:
    """UserError where no column holds the question. It names the key of the `answer`, too, where
    that is in none of the `usual` columns."""
    known = set(rows.columns)
    if columns.prompt or not known or known & {*ASKED}:
        return
    keys = ["prompt"]
    if not getattr(columns, answer) and not known & {*usual}:
        keys.append(answer)
    raise UserError(
        f"{name} has no column of a known name for the {' or the '.join(keys)}; it has "
        f"{middle_cut(', '.join(rows.columns), 300)}.",
        " ".join(f"columns.{key}=NAME" for key in keys),
    )


def choices_in(rows: Rows, columns: ColumnSettings) -> ChoiceColumn | None:
    """The column of choices, if there is one. UserError as `choice_column`."""

    def gold_of(row: Row) -> str:
        said = None if filled(row, _golds(columns)) else question_of(row, columns, ())[2]
        return _answer(said or said_in(row, _golds(columns)), columns.gold_pattern)

    return choice_column(rows, columns.choices, gold_of, MOST_LOST)


def problem_of(
    row: Row, columns: ColumnSettings, names: Sequence[str], choice: ChoiceColumn | None
) -> tuple[Problem, bool]:
    """The problem of a row, with the columns of these names, and whether it has an answer."""
    named = columns.id is not None or row.get("id") is not None
    id_ = text(row, columns.id or "id") if named else str(row.number)
    choices = choices_of(row, choice.name) if choice else ()
    prompt, turns, said = question_of(row, columns, choices)
    difficulty = _difficulty(row, columns.difficulty) if columns.difficulty else None
    golds = _golds(columns)
    golded = filled(row, golds) is not None
    solved_alone = not golded and row.get("solution") is not None
    whole = None if golded else said
    if whole is None and (choice or not solved_alone):
        whole = said_in(row, golds, key="" if columns.gold else "gold")
    if choice:
        named = _answer(whole or "", columns.gold_pattern)
        gold = letter_of(row, choices, named, by_text=choice.by_text)
    elif whole is None:
        gold = boxed(text(row, "solution")) or ""
    else:
        gold = _answer(whole, columns.gold_pattern)
    if columns.response is not None:
        solution = text(row, columns.response)
    else:
        texts = (said, row.columns.get("solution"), *map(row.columns.get, golds))
        marked = (x for x in texts if isinstance(x, str) and ("####" in x or boxed(x) is not None))
        solution = worked(next(marked, ""), gold)
    its: dict[str, Any] = {name: row.get(name) for name in names if name != "prompt"}
    if names and turns:
        its["prompt"] = as_messages(turns)
    problem = Problem(id_, prompt, gold, choices, solution, difficulty, several(turns), its)
    return problem, bool(gold) or not (solved_alone or columns.gold_pattern)


def _golds(columns: ColumnSettings) -> Sequence[str]:
    return GOLDS if columns.gold is None else (columns.gold,)


def filled(row: Row, names: Sequence[str]) -> str | None:
    """The first of these columns that has a value."""
    return next((name for name in names if row.get(name) is not None), None)


def question_of(
    row: Row, columns: ColumnSettings, choices: Sequence[str]
) -> tuple[str, tuple[Turn, ...], str | None]:
    """The question of a row with its choices, its messages if it is a conversation, and what the
    assistant answers in it."""
    names = ASKED if columns.prompt is None else (columns.prompt,)
    name = filled(row, names)
    messages = messages_of(row, name) if name else None
    if messages is None:
        if columns.prompt is None:
            names = (name,) if name in CHATS else PROMPTS
        question = text(row, *names, key="" if columns.prompt else "prompt")
        return with_choices(_asked(row, question), choices), (), None
    turns, answer = parted(row, messages)
    _asked(row, turns[-1][1])
    last = "user", with_choices(turns[-1][1], choices)
    return with_choices(as_text(turns), choices), (*turns[:-1], last), answer


def _asked(row: Row, question: str) -> str:
    if not question.strip():
        raise UserError(f"{row.where} has an empty question.", "fill it in, or leave it out")
    return question


def several(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """The messages of a conversation, and none of a question alone."""
    return turns if len(turns) > 1 else ()


def said_in(row: Row, names: Sequence[str], key: str = "") -> str:
    """The text of the first of these columns that is filled, or of its last message (as in TRL's
    `completion`)."""
    name = filled(row, names)
    messages = messages_of(row, name) if name else None
    return messages[-1][1] if messages else text(row, *names, key=key)


def read_rows(name: str, hub: HubSettings | None = None, split: str = "train") -> Rows:
    """The rows of a custom data set; see `read_custom`."""
    hub = hub or HubSettings()
    if not name.startswith(HUB):
        saved = is_saved(Path(name))
        for key in hub.model_dump(exclude_none=True, exclude={"split"} if saved else None):
            raise UserError(
                f"hub.{key} is of a data set of the hub, and {name} is "
                f"{'a folder' if saved else 'a file'}.",
                "task=hub:owner/name names one",
            )
        return read_saved(name, hub.split, split) if saved else read_file(name)
    path = name.removeprefix(HUB)
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", path):
        raise UserError(f"{name} names no data set of the hub.", "for example hub:openai/gsm8k")
    if Path(path).exists():  # `datasets` would load the folder
        raise UserError(
            f"{path} is a folder here, and {name} on the hub.", "work in another folder"
        )
    return load(HubSource(path, hub.revision, (hub.config or "",), hub.split or split, None))


def _answer(gold: str, pattern: str | None) -> str:
    """What the pattern finds; without one the text after `####`, or in the last box, or all."""
    if pattern is not None:
        return matched(gold, pattern).answer or ""
    if "####" in gold:
        return behind(gold)
    answer = boxed(gold)
    return gold.strip() if answer is None else answer


def _difficulty(row: Row, name: str) -> float:
    number = text(row, name).strip()
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{row.where} has a {name} that is no number: {number!r}.", "numbers only")
    return value

"""Custom data sets: local files, folders that `datasets` saved and data sets of the hub, in which
the user may name the columns."""

import contextlib
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from ictcli.errors import UserError, nearest
from ictcli.recipe.data import ColumnSettings, HubSettings
from ictcli.rewards.answers import boxed, matched
from ictcli.rows import CHATS, PROMPTS, Row, Rows, is_file_name, is_saved, read_file, text
from ictcli.tasks.chats import as_messages, as_text, messages_of, parted
from ictcli.tasks.golds import (
    are_letters,
    are_texts,
    behind,
    choices_of,
    letter_of,
    verifier_of,
    with_choices,
    without_placeholders,
    worked,
)
from ictcli.tasks.hub import HubSource, load, read_saved
from ictcli.tasks.split import ProblemSet
from ictcli.text import compiled, middle_cut
from ictcli.types import Problem, Turn

T = TypeVar("T")
HUB = "hub:"
ASKED = (*PROMPTS, *CHATS)
GOLDS = ("gold", "answer")
MOST_LOST = 0.1
"""Largest share of rows or prompts that may be unreadable; with more, the data is refused."""


def is_custom(name: str) -> bool:
    """Return whether a task or benchmark of this name is a custom data set: a file, a folder that
    `datasets` saved, or `hub:owner/name`."""
    return is_file_name(name) or name.startswith(HUB)


def read_rows(name: str, hub: HubSettings | None = None, split: str = "train") -> Rows:
    """Return the rows of a custom data set: of a .jsonl, .json, .csv or .parquet file, of a folder
    that `datasets` saved, or of `hub:owner/name` (from `split`, unless `hub` names another)."""
    hub = hub or HubSettings()
    if not name.startswith(HUB):
        saved = is_saved(Path(name))
        for key in hub.model_dump(exclude_none=True, exclude={"split"} if saved else None):
            raise UserError(
                f"hub.{key} is for data sets of the hub, and {name} is "
                f"{'a folder' if saved else 'a file'}.",
                "task=hub:owner/name names a data set of the hub",
            )
        return read_saved(name, hub.split, split) if saved else read_file(name)
    path = name.removeprefix(HUB)
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", path) or Path(path).exists():
        raise UserError(
            f"{name} names no data set of the hub, or {path} is also a path on this machine.",
            "for example hub:openai/gsm8k",
        )
    configs, split = (hub.config or "",), hub.split or split
    return load(HubSource(path, hub.revision, configs, split))


@dataclass(frozen=True)
class Reader:
    """Makes problems from the rows of a data set.

    By default the prompt is in the column `prompt`, `question` or `problem` (text or messages),
    else in `messages` or `conversations`. The gold is in `gold` or `answer`, in the box of
    `solution`, or is the assistant's last message. Choices are in `choices` or, for golds that are
    letters, in `options`."""

    columns: ColumnSettings
    names: Sequence[str]
    """All column names; each problem keeps these columns for reward functions."""
    choices: str | None = None
    """The column of choices, if there is one."""
    by_text: bool = False
    """Whether golds are texts of choices, and not letters or indices."""

    @property
    def golds(self) -> Sequence[str]:
        """The columns of the gold; the first one that has a value is used."""
        return GOLDS if self.columns.gold is None else (self.columns.gold,)

    def problem(self, row: Row) -> Problem:
        """Return the problem of a row, with an empty gold if there is no answer. UserError if the
        row cannot be read."""
        columns = self.columns
        named = columns.id is not None or row.get("id") is not None
        id_ = text(row, columns.id or "id") if named else str(row.number)
        choices = choices_of(row, self.choices) if self.choices else ()
        prompt, turns, reply = self.question(row, choices)
        texts, is_solution = self.answers(row, reply)
        if not is_solution and not self.choices:
            texts = without_placeholders(row, texts)
        golds = [boxed(texts[0]) or ""] if is_solution else [*map(self._gold, texts)]
        if self.choices:
            golds = [letter_of(row, choices, gold, by_text=self.by_text) for gold in golds]
        gold, *more = dict.fromkeys(filter(None, golds)) or [""]
        if columns.response is not None:
            solution = text(row, columns.response)
        else:
            worked_texts = (reply, row.get("solution"), *map(row.get, self.golds))
            marked = (t for t in worked_texts if isinstance(t, str) and ("####" in t or boxed(t)))
            solution = worked(next(marked, ""), gold)
        kept: dict[str, Any] = {name: row.get(name) for name in self.names}
        if turns:
            kept["prompt"] = as_messages(turns)
        conversation = turns if len(turns) > 1 else ()
        return Problem(id_, prompt, gold, choices, solution, conversation, kept, tuple(more))

    def question(
        self, row: Row, choices: Sequence[str] = ()
    ) -> tuple[str, tuple[Turn, ...], str | None]:
        """Return a row's question with its choices; the messages of its conversation, if it has
        one; and the assistant's answer in that conversation, or None."""
        names = ASKED if self.columns.prompt is None else (self.columns.prompt,)
        name = filled(row, names)
        messages = messages_of(row, name) if name else None
        if messages is None:
            if self.columns.prompt is None:
                names = (name,) if name in CHATS else PROMPTS
            question = text(row, *names, key="prompt")
            turns, answer = (), None
        else:
            turns, answer = parted(row, messages)
            question = turns[-1][1]
        if not question.strip():
            raise UserError(f"{row.where} has an empty question.", "fill it in, or leave it out")
        if not turns:
            return with_choices(question, choices), (), None
        last = "user", with_choices(question, choices)
        return with_choices(as_text(turns), choices), (*turns[:-1], last), answer

    def answers(self, row: Row, reply: str | None) -> tuple[list[str], bool]:
        """Return the texts that contain the row's golds, any of which is correct, and whether the
        text is a solution with the gold in its box. If no gold column has a value, the text is
        `reply` (the assistant's answer in a conversation) or else the solution."""
        name = filled(row, self.golds)
        if name is None:
            if reply is not None:
                return [reply], False
            if row.get("solution") is not None and not self.choices:
                return [text(row, "solution")], True
        value = row.get(name or "")
        if isinstance(value, list) and messages_of(row, name or "") is None:
            listed = cast("list[Any]", value)
            rows = (replace(row, columns={name: part}) for part in listed if part is not None)
            return [text(part, name or "") for part in rows], False
        return [said_in(row, self.golds, key="gold")], False

    def _gold(self, answer: str) -> str:
        """Return the gold in a text: what the pattern matches, if there is a pattern; else the text
        after `####`, in the last box, or all of it."""
        if self.columns.gold_pattern is not None:
            return matched(answer, self.columns.gold_pattern).answer or ""
        if "####" in answer:
            return behind(answer)
        in_box = boxed(answer)
        return answer.strip() if in_box is None else in_box

    def with_choices(self, rows: Rows) -> "Reader":
        """Return the reader with the column of choices set, if there is one. Golds are read as
        texts of choices if that fits more rows than letters or indices do."""
        usual = (self.columns.choices,) if self.columns.choices else ("choices", "options")
        present = (name for name in usual if any(row.get(name) is not None for row in rows.rows))
        column = next(present, None)
        if column is None:
            return self
        golds: list[tuple[Row, str, tuple[str, ...]]] = []
        for row in rows.rows:
            with contextlib.suppress(UserError):
                answered = filled(row, self.golds) is not None
                reply = None if answered else self.question(row)[2]
                texts, choices = self.answers(row, reply)[0], choices_of(row, column)
                golds += [(row, self._gold(answer), choices) for answer in texts]
        if column == "options" and not are_letters([gold for _, gold, _ in golds]):
            return self
        return replace(self, choices=column, by_text=are_texts(golds))


def reader_of(
    name: str,
    rows: Rows,
    columns: ColumnSettings,
    usual: ColumnSettings | None,
    answer: str,
    answers: Sequence[str],
) -> Reader:
    """Return a reader of these rows, which uses the columns that the user named, else the `usual`
    ones. UserError if a named column is missing, or if no column holds the question. If there is no
    column of `answers` either, the hint also names the key `columns.{answer}`."""
    names, paths = rows.columns, rows.paths
    named = {*names, *paths}
    for key, column in columns.model_dump(exclude_none=True, exclude={"gold_pattern"}).items():
        if column not in named:
            raise UserError(
                f"{name} has no column {column!r}{nearest(column, paths)}; it has "
                f"{middle_cut(', '.join(paths), 300) or 'none'}.",
                f"set columns.{key} to a column; for eval.bench set eval.columns.{key}, and for "
                f"sft.data sft.columns.{key}",
            )
    defaults = {k: name for k, name in (usual or columns) if name in named or k == "gold_pattern"}
    columns = columns.filled_by(ColumnSettings(**defaults))
    if columns.gold_pattern is not None:
        compiled(columns.gold_pattern)  # raises if it is wrong, before any row is read
    if names and not columns.prompt and not {*names} & {*ASKED}:
        keys = ["prompt"]
        if not getattr(columns, answer) and not {*names} & {*answers}:
            keys.append(answer)
        others = [column for column in names if column not in answers]
        others = others if len(others) == len(keys) else ["NAME"] * len(keys)
        pairs = zip(keys, others, strict=True)
        settings = " ".join(shlex.quote(f"columns.{key}={column}") for key, column in pairs)
        raise UserError(
            f"{name} has no column with a usual name for the {' or the '.join(keys)}; it "
            f"has {middle_cut(', '.join(paths), 300)}.",
            f"{settings}, or use the column names {', '.join(ASKED)} and {', '.join(answers)}",
        )
    return Reader(columns, names).with_choices(rows)


def read_custom(
    name: str,
    columns: ColumnSettings | None = None,
    hub: HubSettings | None = None,
    split: str = "train",
    usual: ColumnSettings | None = None,
    rows: Rows | None = None,
) -> ProblemSet:
    """Return the problems of a custom data set (see `Reader`). `rows` are its rows if already read.

    The verifier is choice if there are choices or all golds are letters, integer if all golds are
    integers, text if all golds are words, else math. Rows that cannot be read are left out, with a
    note; if they are more than `MOST_LOST`, UserError for the first of them."""
    rows = rows or read_rows(name, hub, split)
    reader = reader_of(name, rows, columns or ColumnSettings(), usual, "gold", (*GOLDS, "solution"))
    read, notes = read_each(reader.problem, rows)
    problems = with_own_ids(read)
    golds = [gold for problem in problems if problem.gold for gold in problem.golds]
    kind = "choice" if reader.choices else verifier_of(golds)
    lost = len(rows.rows) - len(problems)
    return ProblemSet(problems, replace(rows, notes=notes), kind, lost)


def read_each(read: Callable[[Row], T], rows: Rows) -> tuple[list[T], tuple[str, ...]]:
    """Return `read(row)` of all rows that can be read, and notes: those of `rows`, and a note that
    counts the rows left out. UserError if more than `MOST_LOST` of them are left out."""
    results: list[T] = []
    errors: list[UserError] = []
    for row in rows.rows:
        try:
            results.append(read(row))
        except UserError as error:
            errors.append(error)
    if not errors:
        return results, rows.notes
    first, count = errors[0], f"{len(errors):,} of {len(rows.rows):,} rows"
    if len(errors) > MOST_LOST * len(rows.rows):
        more = f" {count} cannot be read; at most a tenth may be left out."
        raise UserError(first.message + more * (len(errors) > 1), first.hint)
    note = f"{count} left out, as they cannot be read. The first: {first.message}"
    return results, (*rows.notes, note)


def with_own_ids(problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems with unique ids (repeats get a number), by which samples are stored."""
    taken = {problem.id for problem in problems}
    by_id: dict[str, Problem] = {}
    for problem in problems:
        id_, number = problem.id, 1
        while id_ in by_id or (number > 1 and id_ in taken):
            number += 1
            id_ = f"{problem.id}#{number}"
        by_id[id_] = problem if number == 1 else replace(problem, id=id_)
    return list(by_id.values())


def filled(row: Row, names: Sequence[str]) -> str | None:
    """Return the name of the first of these columns that has a value, or None."""
    return next((name for name in names if row.get(name) is not None), None)


def said_in(row: Row, names: Sequence[str], key: str = "") -> str:
    """Return the text in the first of these columns that has a value; if it holds messages, the
    text of the last message (as in TRL's `completion`)."""
    name = filled(row, names)
    messages = messages_of(row, name) if name else None
    return messages[-1][1] if messages else text(row, *names, key=key)

"""Golds, choices and worked solutions in the rows of a data set."""

import contextlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from ictcli.errors import UserError
from ictcli.files import encodable
from ictcli.files.reading import parse_json
from ictcli.rewards.answers import boxed
from ictcli.rows import Row, Rows

CALCULATOR = re.compile(r"<<[^<>\n]*>>")
"""Calculator annotations in GSM8K's solutions."""
_LETTER = re.compile(r"\(?[A-J]\)?\.?")


class ChoiceColumn(NamedTuple):
    """How the rows of a file give choices, and its golds name them."""

    name: str
    by_text: bool
    """Whether a gold is the text of a choice, and not its letter or index."""


def behind(answer: str) -> str:
    """The text after the last `####`, or all of it."""
    return answer.rpartition("####")[2].strip()


def worked(text: str, gold: str) -> str:
    """A worked solution that ends with its answer in a box."""
    if boxed(text) is not None:
        return text
    reasons, marked, _ = text.rpartition("####")
    reasons = CALCULATOR.sub("", reasons).strip() if marked else ""
    return (f"{reasons}\n" if reasons else "") + f"The answer is \\boxed{{{gold}}}."


def choices_of(row: Row, name: str = "choices") -> tuple[str, ...]:
    """The texts of a column of choices, stripped: a list, a table by letters, or either as JSON.
    UserError for anything else."""
    value = row.get(name)
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            value = parse_json(value)
        except ValueError:
            value = None
    if isinstance(value, dict):
        table = {
            key: each for key, each in cast("dict[str, Any]", value).items() if each is not None
        }
        labels = [letter(place) for place in range(len(table))]
        value = [table[label] for label in labels] if sorted(table) == labels else None
    texts = cast("list[Any]", value) if isinstance(value, list) else []
    if not 2 <= len(texts) <= 26 or not all(isinstance(x, str | int | float) for x in texts):
        raise UserError(
            f"{row.where} has no list of choices.", f'"{name}": ["...", "..."], 2 to 26 of them'
        )
    return tuple(encodable(str(choice)).strip() for choice in texts)


def are_letters(golds: Sequence[str]) -> bool:
    """Whether golds are letters of choices, A to J."""
    return bool(golds) and all(_LETTER.fullmatch(gold.strip()) for gold in golds)


def choice_column(
    rows: Rows, name: str | None, gold_of: Callable[[Row], str], most_lost: float
) -> ChoiceColumn | None:
    """The column of choices, if there is one, and what its golds are: what more rows can be read
    as. Without a name it is `choices`, or `options` where all golds are letters. UserError if only
    some rows have choices; or, for the first row where letter or index and text differ, if at most
    a share of `most_lost` of the rows cannot be read as either."""
    column = name or "choices"
    without = [row for row in rows.rows if row.get(column) is None]
    if 0 < len(without) < len(rows.rows):
        raise UserError(
            f"{without[0].where} has no choices, and others have.", "put them in two files"
        )
    if without and (name or all(row.get("options") is None for row in rows.rows)):
        return None
    golds: list[tuple[Row, str]] = []
    for row in rows.rows:
        with contextlib.suppress(UserError):
            golds.append((row, gold_of(row)))
    if without and not are_letters([gold for _, gold in golds]):
        return None
    column = "options" if without else column
    labels = texts = 0
    two_ways: list[UserError] = []
    for row, gold in golds:
        with contextlib.suppress(UserError):
            choices = choices_of(row, column)
            place, same = _place(behind(gold), len(choices)), _same(gold, choices)
            labels, texts = labels + (place is not None), texts + bool(same)
            if place is not None and same and place not in same:
                two_ways.append(_two_ways(row, choices, gold))
    if two_ways and min(labels, texts) >= (1 - most_lost) * len(golds):
        raise two_ways[0]
    return ChoiceColumn(column, texts > labels)


def _two_ways(row: Row, choices: Sequence[str], gold: str) -> UserError:
    digit, last = behind(gold).strip("() .").isdigit(), len(choices) - 1
    return UserError(
        f"{row.where} has a gold, {gold.strip()}, that is the {'index' if digit else 'letter'}"
        f" of one of its choices and the text of another.",
        f"give letters, A to {letter(last)}" if digit else f"give an index, 0 to {last}",
    )


def letter_of(row: Row, choices: Sequence[str], gold: str, *, by_text: bool = False) -> str:
    """The letter of a gold: a letter or an index from 0, or `by_text` the text of a choice.
    UserError for anything else."""
    same = _same(gold, choices) if by_text else []
    place = _place(behind(gold), len(choices)) if not by_text else same[0] if same else None
    letters, indices = f"A to {letter(len(choices) - 1)}", f"0 to {len(choices) - 1}"
    if place is None:
        raise UserError(
            f"{row.where} has a gold that is none of its {len(choices)} choices.",
            f"a letter, {letters}, or an index, {indices}",
        )
    if len(same) > 1:
        raise UserError(
            f"{row.where} has a gold that is the text of {len(same)} of its choices.",
            f"give its letter, {letters}",
        )
    return letter(place)


def _same(gold: str, choices: Sequence[str]) -> list[int]:
    """The places of the choices whose text a gold is."""
    return [i for i, choice in enumerate(choices) if choice in (gold.strip(), behind(gold))]


def letter(place: int) -> str:
    """The letter of a place: A for 0."""
    return chr(ord("A") + place)


def _place(gold: str, n: int) -> int | None:
    """The place from 0 of one of n choices by its letter or index; None if it is neither."""
    gold = gold.strip("() .").upper()
    if len(gold) == 1 and 0 <= ord(gold) - ord("A") < n:
        return ord(gold) - ord("A")
    if gold.isascii() and gold.isdigit() and int(gold[:4]) < n:
        return int(gold[:4])
    return None


def with_choices(question: str, choices: Sequence[str]) -> str:
    """The question, then each choice on a line of its own: `(A) text`."""
    lines = [f"({letter(place)}) {choice}" for place, choice in enumerate(choices)]
    return "\n".join((question, *lines))

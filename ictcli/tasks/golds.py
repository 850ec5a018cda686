"""Golds, choices and worked solutions in the rows of a data set."""

import re
from collections.abc import Sequence
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.files import encodable
from ictcli.files.reading import parse_json
from ictcli.rewards.answers import boxed
from ictcli.rows import Row

CALCULATOR = re.compile(r"<<[^<>\n]*>>")
"""Calculator annotations in GSM8K's solutions."""


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
    """The texts of a column of choices, stripped: a list, or a list as JSON. UserError for anything
    else."""
    value = row.get(name)
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = parse_json(value)
        except ValueError:
            value = None
    texts = cast("list[Any]", value) if isinstance(value, list) else []
    if not 2 <= len(texts) <= 26 or not all(isinstance(x, str | int | float) for x in texts):
        raise UserError(
            f"{row.where} has no list of choices.", f'"{name}": ["...", "..."], 2 to 26 of them'
        )
    return tuple(encodable(str(choice)).strip() for choice in texts)


def letter_of(row: Row, choices: Sequence[str], gold: str, *, texts: bool = False) -> str:
    """The letter of a gold: a letter, an index from 0, or with `texts` the text of a choice.
    UserError for anything else, or if it is the text of one choice and stands for another."""
    place = _place(behind(gold), len(choices))
    same = [i for i, choice in enumerate(choices) if choice in (gold.strip(), behind(gold))] * texts
    letters, indices = f"A to {letter(len(choices) - 1)}", f"0 to {len(choices) - 1}"
    if place is None and not same:
        raise UserError(
            f"{row.where} has a gold that is none of its {len(choices)} choices.",
            f"a letter, {letters}, or an index, {indices}",
        )
    if len(same) > 1 and place not in same:
        raise UserError(
            f"{row.where} has a gold that is the text of {len(same)} of its choices.",
            f"give its letter, {letters}",
        )
    if place is not None and same and place not in same:
        digit = behind(gold).strip("() .").isdigit()
        raise UserError(
            f"{row.where} has a gold, {gold.strip()}, that is the {'index' if digit else 'letter'}"
            f" of one of its choices and the text of another.",
            f"give letters, {letters}" if digit else f"give an index, {indices}",
        )
    return letter(same[0] if place is None else place)


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

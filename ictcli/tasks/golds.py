"""Golds, choices and worked solutions in the rows of a data set."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.files import encodable
from ictcli.files.reading import parse_json
from ictcli.rewards.answers import boxed, matched
from ictcli.rewards.builtin import are_words
from ictcli.rows import Row

CALCULATOR = re.compile(r"<<[^<>\n]*>>")
"""Calculator annotations in GSM8K's solutions."""
BARE = re.compile(r"[-+]?\d[\d,]*")
"""An integer alone. A unit or % next to it may matter, and the verifier `integer` ignores those."""
_LETTER = re.compile(r"\(?[A-J]\)?\.?")
PLACEHOLDERS = ("", "-", "n/a", "nan", "none", "null")
"""Placeholders for a missing gold, in upper or lower case."""
LAST_NUMBER = r"(-?\d+(?:[.,/]\d+)*)"
"""Pattern of an answer: the last number of a text."""
_PATTERNS = (r"(?i)answer(?: is|:)[ *]*(.+?)[*.]*$", LAST_NUMBER)
"""Those that are proposed where golds are sentences, as the first that reads them."""
_LATEX_TEXT = re.compile(r"\\(?:text\w*|mbox|mathrm)\s*\{[^{}]*\}")
_WORD = re.compile(r"(?<![\\\w])[^\W\d_]{2,}")


def without_placeholders(row: Row, texts: Sequence[str]) -> list[str]:
    """Return the texts that hold a gold. UserError if none does."""
    kept = [text for text in texts if behind(text).casefold() not in PLACEHOLDERS]
    if not kept:
        raise UserError(
            f"{row.where} has only a placeholder as its gold: {''.join(texts[:1]).strip()!r}.",
            "leave such rows out, or write the answer in words: no, unknown",
        )
    return kept


def is_sentence(gold: str) -> bool:
    """Return whether a gold has three words or more, without those of LaTeX, so is no formula."""
    return len(_WORD.findall(_LATEX_TEXT.sub("", gold))) >= 3


def proposed_pattern(golds: Sequence[str]) -> str | None:
    """Return a pattern that reads a short answer in nine of ten golds."""
    for pattern in _PATTERNS:
        read = [matched(gold, pattern).answer for gold in golds]
        short = sum(answer is not None and not is_sentence(answer) for answer in read)
        if 10 * short >= 9 * len(golds) > 0:
            return pattern
    return None


def behind(answer: str) -> str:
    """Return the text after the last `####`, or all of it."""
    return answer.rpartition("####")[2].strip()


def worked(text: str, gold: str) -> str:
    """Return a worked solution that ends with its answer in a box."""
    if boxed(text) is not None:
        return text
    reasons, marked, _ = text.rpartition("####")
    reasons = CALCULATOR.sub("", reasons).strip() if marked else ""
    return (f"{reasons}\n" if reasons else "") + f"The answer is \\boxed{{{gold}}}."


def choices_of(row: Row, name: str = "choices") -> tuple[str, ...]:
    """Return the texts of a column of choices, stripped: a list, a table by letters, or either as
    JSON. UserError for anything else."""
    value = row.get(name)
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            value = parse_json(value)
        except ValueError:
            value = None
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        table = {key: choice for key, choice in items if choice is not None}
        labels = [letter(place) for place in range(len(table))]
        value = [table[label] for label in labels] if sorted(table) == labels else None
    texts = cast("list[Any]", value) if isinstance(value, list) else []
    if not 2 <= len(texts) <= 26 or not all(isinstance(x, str | int | float) for x in texts):
        raise UserError(
            f"{row.where} has no list of choices.", f'"{name}": ["...", "..."], 2 to 26 of them'
        )
    return tuple(encodable(str(choice)).strip() for choice in texts)


def are_letters(golds: Sequence[str]) -> bool:
    """Return whether golds are letters of choices, A to J."""
    return bool(golds) and all(_LETTER.fullmatch(gold.strip()) for gold in golds)


def verifier_of(golds: Sequence[str]) -> str:
    """Return the name of the verifier that judges answers with these golds."""
    if are_letters(golds):
        return "choice"
    if all(map(BARE.fullmatch, golds)):
        return "integer"
    return "text" if are_words(golds) else "math"


def are_texts(golds: Iterable[tuple[Row, str, Sequence[str]]]) -> bool:
    """Return whether golds are rather the texts of choices than their letters or indices: what more
    rows can be read as. UserError where nine in ten can be read as both, and a row says two
    things."""
    count = labels = texts = 0
    two_ways: list[UserError] = []
    for row, gold, choices in golds:
        place, same = _place(behind(gold), len(choices)), _same(gold, choices)
        count, labels, texts = count + 1, labels + (place is not None), texts + bool(same)
        if place is not None and same and place not in same:
            message = f"{row.where} has a gold, {gold.strip()}, that is the letter or the index of "
            message += "one of its choices and the text of another."
            two_ways.append(UserError(message, f"give letters, A to {letter(len(choices) - 1)}"))
    if two_ways and 10 * min(labels, texts) >= 9 * count:
        raise two_ways[0]
    return texts > labels


def letter_of(row: Row, choices: Sequence[str], gold: str, *, by_text: bool = False) -> str:
    """Return the letter of a gold: a letter or an index from 0, or `by_text` the text of a choice.
    UserError for anything else."""
    same = _same(gold, choices) if by_text else []
    place = _place(behind(gold), len(choices)) if not by_text else same[0] if same else None
    letters, indices = f"A to {letter(len(choices) - 1)}", f"0 to {len(choices) - 1}"
    if place is None:
        raise UserError(
            f"{row.where} has a gold that is not one of its {len(choices)} choices.",
            f"a letter, {letters}, or an index, {indices}",
        )
    if len(same) > 1:
        raise UserError(
            f"{row.where} has a gold that is the text of {len(same)} of its choices.",
            f"give its letter, {letters}",
        )
    return letter(place)


def _same(gold: str, choices: Sequence[str]) -> list[int]:
    """Return the places of the choices whose text a gold is."""
    return [i for i, choice in enumerate(choices) if choice in (gold.strip(), behind(gold))]


def letter(place: int) -> str:
    """Return the letter of a place: A for 0."""
    return chr(ord("A") + place)


def _place(gold: str, n: int) -> int | None:
    """Return the place from 0 of one of n choices by its letter or index; None if it is neither."""
    gold = gold.strip("() .").upper()
    if len(gold) == 1 and 0 <= ord(gold) - ord("A") < n:
        return ord(gold) - ord("A")
    if gold.isascii() and gold.isdigit() and int(gold[:4]) < n:
        return int(gold[:4])
    return None


def with_choices(question: str, choices: Sequence[str]) -> str:
    """Return the question, then each choice on a separate line: `(A) text`."""
    lines = [f"({letter(place)}) {choice}" for place, choice in enumerate(choices)]
    return "\n".join((question, *lines))

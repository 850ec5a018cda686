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
"""Matches an integer without a unit or %; the verifier `integer` would ignore these."""
_LETTER = re.compile(r"\(?[A-J]\)?\.?")
PLACEHOLDERS = ("", "-", "n/a", "nan", "none", "null")
"""Texts that stand for a missing gold, in upper or lower case."""
LAST_NUMBER = r"(-?\d+(?:[.,/]\d+)*)"
"""Pattern of an answer: the last number of a text."""
_PATTERNS = (r"(?i)answer(?: is|:)[ *]*(.+?)[*.]*$", LAST_NUMBER)
"""Answer patterns that may be proposed if golds are sentences, in order of preference."""
_LATEX_TEXT = re.compile(r"\\(?:text\w*|mbox|mathrm)\s*\{[^{}]*\}")
_WORD = re.compile(r"(?<![\\\w])[^\W\d_]{2,}")


def without_placeholders(row: Row, texts: Sequence[str]) -> list[str]:
    """Return the texts that are not `PLACEHOLDERS`. UserError if no text is left."""
    kept = [text for text in texts if behind(text).casefold() not in PLACEHOLDERS]
    if not kept:
        raise UserError(
            f"{row.where} has only a placeholder as its gold: {''.join(texts[:1]).strip()!r}.",
            "leave such rows out, or write the answer in words: no, unknown",
        )
    return kept


def is_sentence(gold: str) -> bool:
    """Return whether a gold has three words or more outside LaTeX, so that it is not a formula."""
    return len(_WORD.findall(_LATEX_TEXT.sub("", gold))) >= 3


def proposed_pattern(golds: Sequence[str]) -> str | None:
    """Return a pattern that finds a short answer in nine of ten golds; None if no pattern does."""
    for pattern in _PATTERNS:
        read = [matched(gold, pattern).answer for gold in golds]
        short = sum(answer is not None and not is_sentence(answer) for answer in read)
        if 10 * short >= 9 * len(golds) > 0:
            return pattern
    return None


def behind(answer: str) -> str:
    """Return the text after the last `####`, or the whole text if it has no `####`."""
    return answer.rpartition("####")[2].strip()


def worked(text: str, gold: str) -> str:
    """Return a solution with its answer in a box: the text itself if it has a box; else its steps
    before `####`, then the gold in a box."""
    if boxed(text) is not None:
        return text
    reasons, marked, _ = text.rpartition("####")
    reasons = CALCULATOR.sub("", reasons).strip() if marked else ""
    return (f"{reasons}\n" if reasons else "") + f"The answer is \\boxed{{{gold}}}."


def choices_of(row: Row, name: str = "choices") -> tuple[str, ...]:
    """Return the choices in a column, stripped. The column holds a list, an object whose keys are
    letters, or the JSON text of either. UserError for anything else."""
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
    """Return the name of the verifier that fits these golds."""
    if are_letters(golds):
        return "choice"
    if all(map(BARE.fullmatch, golds)):
        return "integer"
    return "text" if are_words(golds) else "math"


def are_texts(golds: Iterable[tuple[Row, str, Sequence[str]]]) -> bool:
    """Return whether more golds equal the text of a choice than name a choice by letter or index.
    UserError if nine in ten do both and, in some row, the text and the letter belong to different
    choices."""
    count = labels = texts = 0
    ambiguous: list[UserError] = []
    for row, gold, choices in golds:
        place, same = _place(behind(gold), len(choices)), _same(gold, choices)
        count, labels, texts = count + 1, labels + (place is not None), texts + bool(same)
        if place is not None and same and place not in same:
            message = f"{row.where} has a gold, {gold.strip()}, that is the letter or the index of "
            message += "one of its choices and the text of another."
            ambiguous.append(UserError(message, f"give letters, A to {letter(len(choices) - 1)}"))
    if ambiguous and 10 * min(labels, texts) >= 9 * count:
        raise ambiguous[0]
    return texts > labels


def letter_of(row: Row, choices: Sequence[str], gold: str, *, by_text: bool = False) -> str:
    """Return the letter of the choice that a gold names: by letter or index from 0 or, if
    `by_text`, by its text. UserError if the gold names no choice."""
    same = _same(gold, choices) if by_text else []
    place = _place(behind(gold), len(choices)) if not by_text else same[0] if same else None
    letters, indices = f"A to {letter(len(choices) - 1)}", f"0 to {len(choices) - 1}"
    if place is None:
        raise UserError(
            f"{row.where} has a gold that is not one of its {len(choices)} choices.",
            f"give a letter, {letters}, or an index, {indices}",
        )
    if len(same) > 1:
        raise UserError(
            f"{row.where} has a gold that is the text of {len(same)} of its choices.",
            f"give its letter, {letters}",
        )
    return letter(place)


def _same(gold: str, choices: Sequence[str]) -> list[int]:
    """Return the places, from 0, of the choices whose text equals the gold."""
    return [i for i, choice in enumerate(choices) if choice in (gold.strip(), behind(gold))]


def letter(place: int) -> str:
    """Return the letter of a choice by its place: A for 0."""
    return chr(ord("A") + place)


def _place(gold: str, n: int) -> int | None:
    """Return the place, from 0, of the choice that a letter or an index names, or None."""
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

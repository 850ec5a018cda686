"""What the options of `ictcli eval` say of prompts and data, read and checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ictcli.errors import UserError, nearest
from ictcli.recipe.files import read_examples
from ictcli.recipe.settings import QUESTION, TEMPLATES, Example, Table

T = TypeVar("T", bound=Table)


def template_text(given: str) -> str:
    """A template as it was typed: auto, chat, none, a text with {question}, or the path of a file
    that holds one (its last line end left out)."""
    if given in TEMPLATES or QUESTION in given:
        return given
    path = Path(given)
    if not path.is_file():
        raise UserError(
            f"The template {given!r} is no template and no file.",
            f"auto, chat, none, a text with {QUESTION} in it, or the path of a file with one",
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{given} is not UTF-8: {error}.", "save it as UTF-8") from error
    if QUESTION not in text:
        raise UserError(f"{given} has no {QUESTION} in it.", "put it where the question goes")
    return text.replace("\r\n", "\n").removesuffix("\n")


def examples_of(given: str) -> tuple[Example, ...]:
    """Few-shot examples as they were typed: none, or the path of a file of them."""
    return () if given == "none" else read_examples(given)


def table_of(kind: type[T], option: str, given: Sequence[str]) -> T:
    """A table of settings from KEY=VALUE, as `--columns gold=answer`. UserError for another key."""
    found: dict[str, str] = {}
    keys = list(kind.model_fields)
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not value or key not in keys:
            raise UserError(
                f"{option} {text} is not KEY=VALUE{nearest(key, keys)}.",
                f"the keys are: {', '.join(keys)}",
            )
        found[key] = value
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise UserError(f"{option} cannot be read: {reason}.", "ictcli eval --help") from error

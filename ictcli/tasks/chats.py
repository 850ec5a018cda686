"""Conversations in the rows of a data set: messages with roles, as chat files and TRL have them."""

import re
from collections.abc import Sequence
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.files import encodable
from ictcli.files.reading import parse_json
from ictcli.rows import Row
from ictcli.types import Turn

KEYS = (("role", "content"), ("from", "value"))
"""The names of a message's parts; the second are ShareGPT's."""
ROLES = {"human": "user", "gpt": "assistant"}
"""ShareGPT's names of roles."""
_LIST = re.compile(r"\s*\[\s*\{")
"""How a list of objects begins as text."""
_ROLE = re.compile(r"""["'](?:role|from)["']\s*:""")
_FORM = '[{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]'


def messages_of(row: Row, name: str) -> tuple[Turn, ...] | None:
    """The messages in a column: a list of objects, or one as JSON; None if it holds something
    else. UserError where one of them has no role or no text."""
    value = row.columns.get(name)
    if isinstance(value, str):
        if not _LIST.match(value):
            return None
        try:
            value = parse_json(value)
        except ValueError as error:
            if not _ROLE.search(value):
                return None
            raise UserError(
                f"{row.where} has a {name} that is a list of messages, but not JSON: {error}.",
                "write it as JSON; pandas writes a list to CSV as Python does",
            ) from error
        if not all(_parts(message) for message in value):
            return None  # text that is JSON
    if not isinstance(value, list) or not value:
        return None
    messages = cast("list[Any]", value)
    if not all(isinstance(message, dict) for message in messages):
        return None
    turns: list[Turn] = []
    for number, message in enumerate(messages, 1):
        parts = _parts(message)
        role, content = parts or ("", None)
        if not parts or not isinstance(role, str) or content is None:
            raise UserError(
                f"{row.where} has a {name} whose message {number} has no role, or no text.",
                f'"{name}": {_FORM}',
            )
        turns.append((ROLES.get(role, role), encodable(content)))
    return tuple(turns)


def _parts(message: Any) -> tuple[Any, str | None] | None:
    """Role and text of a message; the text is None where it has pictures or nothing."""
    for role, content in KEYS:
        if isinstance(message, dict) and {role, content} <= message.keys():
            table = cast("dict[str, Any]", message)
            return table[role], _text(table[content])
    return None


def _text(content: Any) -> str | None:
    """The text of a message: itself, or its parts of type text, where all are."""
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        objects = [cast("dict[str, Any]", part) for part in parts if isinstance(part, dict)]
        texts = [part.get("text") for part in objects]
        same = len(texts) == len(parts) and all(isinstance(text, str) for text in texts)
        return "".join(map(str, texts)) if same else None
    return content if isinstance(content, str) else None


def parted(row: Row, turns: Sequence[Turn]) -> tuple[tuple[Turn, ...], str | None]:
    """The messages up to the last of the user, and what the assistant answers to it, if it does.
    UserError where no message of the user is the last, or the last but the answer."""
    answer = turns[-1][1] if turns[-1][0] == "assistant" else None
    asked = tuple(turns if answer is None else turns[:-1])
    if not asked or asked[-1][0] != "user":
        raise UserError(
            f"{row.where} asks nothing: its last message, an answer of the assistant aside, is "
            "none of the user.",
            _FORM,
        )
    return asked, answer


def as_messages(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """A conversation as chat templates and reward functions take it."""
    return [{"role": role, "content": text} for role, text in turns]


def as_text(turns: Sequence[Turn]) -> str:
    """A conversation as a model without a chat template reads it, without its system messages: an
    answer on the line below its question, and an empty line before the next question."""
    said = [(role, text) for role, text in turns if role != "system"]
    ends = {"assistant": "\n\n"}
    return "".join(text + ends.get(role, "\n") for role, text in said).rstrip("\n")


def system_of(turns: Sequence[Turn]) -> str:
    """The text of the system messages."""
    return "\n".join(text for role, text in turns if role == "system")

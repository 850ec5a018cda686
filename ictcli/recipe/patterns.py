"""Answer patterns of a recipe."""

from functools import lru_cache
from typing import Any

from ictcli.errors import UserError


@lru_cache(maxsize=64)
def compiled(pattern: str) -> Any:
    """The compiled answer pattern: its first group is the answer, or the whole match without one.
    UserError if it is not a regular expression."""
    import regex  # pyright: ignore[reportMissingTypeStubs]  # has a time limit

    try:
        return regex.compile(pattern, regex.MULTILINE)
    except regex.error as error:
        raise UserError(
            f"The answer pattern {pattern!r} is no regular expression: {error}.",
            "for example '^A: (.*)$', whose group is the answer",
        ) from error

"""What is refused: one sentence, and a hint."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ictcli.errors import UserError


@contextmanager
def refused(
    *words: str, hint: str = "", kind: type[UserError] = UserError
) -> Iterator[pytest.ExceptionInfo[UserError]]:
    """Something within is refused by a line that holds all the words, and with that hint."""
    with pytest.raises(kind) as caught:
        yield caught
    message = caught.value.message
    assert [each for each in words if each not in message] == [], message
    assert "\n" not in message and caught.value.exit_code == kind.exit_code
    assert caught.value.hint and hint in caught.value.hint, caught.value.hint

"""Which cases of a law are tried at each push, and which in the profile `thorough` only."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings

FEW = settings(max_examples=max(settings().max_examples // 5, 3))
"""For laws whose examples take long."""


def first(cases: Sequence[Any], count: int = 1) -> list[Any]:
    """Cases for `parametrize` or a fixture: those behind the first are thorough. A tuple is a case
    of several parameters."""
    left = (each if isinstance(each, tuple) else (each,) for each in cases[count:])
    return [*cases[:count], *(pytest.param(*each, marks=pytest.mark.thorough) for each in left)]

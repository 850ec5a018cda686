"""Which cases of a law are tried at each push, and which in the profile `thorough` only."""

from collections.abc import Sequence
from typing import Any

import pytest


def first(cases: Sequence[Any], count: int = 1) -> list[Any]:
    """Cases for `parametrize` or a fixture: those behind the first are thorough."""
    return [
        *cases[:count],
        *(pytest.param(each, marks=pytest.mark.thorough) for each in cases[count:]),
    ]

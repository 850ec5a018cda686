"""A missing engine is skipped at home; in CI one that is implemented must be there."""

import pytest

from . import conftest
from .conftest import IMPLEMENTED, require


@pytest.mark.parametrize("name", [*IMPLEMENTED, "abacus"])
@pytest.mark.parametrize("ci", ["", "true"])
def test_a_missing_engine_fails_in_ci_only(
    monkeypatch: pytest.MonkeyPatch, name: str, ci: str
) -> None:
    monkeypatch.setattr(conftest, "installed_engines", dict)
    monkeypatch.setenv("CI", ci)
    fails = ci and name in IMPLEMENTED
    with pytest.raises(pytest.fail.Exception if fails else pytest.skip.Exception, match=name):
        require(name)

"""What is said of an engine that does not load."""

from types import SimpleNamespace

import pytest
from refusing import refused

from ictcli.engine import registry
from ictcli.errors import EngineMissingError
from ictcli.recipe.tables import EngineSettings


@pytest.mark.parametrize("error", [ImportError("no name 'x'"), AttributeError("no attribute 'x'")])
def test_an_engine_that_does_not_fit_its_library_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def load() -> None:
        raise error

    monkeypatch.setattr(
        registry, "installed_engines", lambda: {"torch": SimpleNamespace(load=load)}
    )
    monkeypatch.setattr(registry, "is_installed", lambda name: True)
    with refused(str(error), hint="[torch]", kind=EngineMissingError):
        registry.build_engine("builtin:chain", EngineSettings(backend="torch"))

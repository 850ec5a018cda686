"""Fixtures of the comparison's tests."""

from pathlib import Path
from typing import Any

import pytest
from made_results import result
from small_runs import Finished, finish, small_design

from ictcli.compare.design import run_specs


@pytest.fixture
def finished(tmp_path: Path) -> Finished:
    runs = run_specs(small_design(tmp_path))
    return runs, {spec.folder: finish(spec) for spec in runs}


@pytest.fixture(scope="session")
def found() -> dict[str, Any]:
    """The JSON of a comparison, which tests copy before they change it."""
    return result()

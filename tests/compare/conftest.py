"""Fixtures of the comparison's tests."""

from pathlib import Path
from typing import Any

import pytest
from made_results import result
from small_runs import finish, small_design

from ictcli.compare.design import RunSpec, run_specs
from ictcli.compare.launch import Summaries


@pytest.fixture
def finished(tmp_path: Path) -> tuple[list[RunSpec], Summaries]:
    runs = run_specs(small_design(tmp_path))
    return runs, {spec.folder: finish(spec) for spec in runs}


@pytest.fixture(scope="session")
def found() -> dict[str, Any]:
    """The JSON of a comparison, which tests copy before they change it."""
    return result()

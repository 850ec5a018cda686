"""Fixtures of the comparison's tests."""

from pathlib import Path

import pytest
from small_runs import finish, small_design

from ictcli.compare.design import RunSpec, run_specs
from ictcli.compare.launch import Summaries


@pytest.fixture
def finished(tmp_path: Path) -> tuple[list[RunSpec], Summaries]:
    runs = run_specs(small_design(tmp_path))
    return runs, {spec.folder: finish(spec) for spec in runs}

"""Fixtures of the command line's tests: commands as processes, and one run that many tests read."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from comparing import Comparison
from processes import TRAINED, Ended, Processes, Small

PARITY = Path(__file__).with_name("parity.py")


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    made = Processes(tmp_path_factory.mktemp("streams"))
    yield made
    made.end()


@pytest.fixture
def ictcli(processes: Processes, tmp_path: Path) -> Processes:
    """Commands in the test's own folder."""
    return processes.here(tmp_path)


@pytest.fixture(scope="session")
def small(tiny_model: Path) -> tuple[str, ...]:
    """Overrides of `chain` that make a run of seconds in which every step has a signal."""
    return (
        f"model={tiny_model}",
        f"plugins=['{PARITY}']",
        "reward=parity",
        "prompts=4",
        "group=4",
        "max_tokens=24",
        "warmup=2",
        "lr=0.003",
        "eval.problems=8",
    )


@pytest.fixture(scope="session")
def training(
    processes: Processes, small: Small, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Ended]:
    """A finished run, 6 steps of ict, and what it said."""
    folder = tmp_path_factory.mktemp("trained")
    args = ("train", "chain", *small, *TRAINED, "--run", "run", "--json")
    ended = processes.done(*args, folder=folder)
    return folder / "run", ended


@pytest.fixture(scope="session")
def trained(training: tuple[Path, Ended]) -> Path:
    return training[0]


@pytest.fixture(scope="session")
def whole(
    processes: Processes, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Comparison:
    """A comparison that was not stopped, in `whole`."""
    made = Comparison(processes, tiny_model, tmp_path_factory.mktemp("compare"))
    ended = made.run("whole")
    left = re.findall(r"^(\d) runs? left, about (?:\d+[hms])+ in all$", ended.err, re.MULTILINE)
    assert left == ["3", "2", "1"]
    assert json.loads(ended.out) == json.loads(
        (made.folder / "whole" / "comparison.json").read_text()
    )
    return made

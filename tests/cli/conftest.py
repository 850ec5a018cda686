"""Fixtures of the command line's tests: commands as processes, and one run that many tests read."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from comparing import Comparison
from processes import TRAINED, Ended, Processes

PARITY = Path(__file__).with_name("parity.py")


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Commands that read their own variables of the hub, and look for engines themselves."""
    with Processes.begun(tmp_path_factory.mktemp("streams")) as processes:
        yield processes


@pytest.fixture(scope="session")
def ictcli(bare: Processes, tiny_model: Path) -> Iterator[Processes]:
    with bare.holding(tiny_model) as processes:
        yield processes


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
        "eval.temperatures=[0]",
    )


@pytest.fixture(scope="session")
def trained(
    ictcli: Processes, small: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Ended]:
    """The folder and the output of a finished run: 6 steps of ict."""
    folder = tmp_path_factory.mktemp("trained")
    ended = ictcli.run("train", "chain", *small, *TRAINED, "--run", "run", "--json", folder=folder)
    assert ended.code == 0, ended.err
    return folder / "run", ended


@pytest.fixture(scope="session")
def whole(
    ictcli: Processes, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Comparison:
    """A comparison that was not stopped, in `whole`."""
    made = Comparison(ictcli, tiny_model, tmp_path_factory.mktemp("compare"))
    ended = made.run("whole")
    assert ended.code == 0, ended.err
    left = re.findall(r"^(\d) runs? left, about (?:\d+[hms])+ in all$", ended.err, re.MULTILINE)
    assert left == ["3", "2", "1"]
    assert json.loads(ended.out) == json.loads(
        (made.folder / "whole" / "comparison.json").read_text()
    )
    return made

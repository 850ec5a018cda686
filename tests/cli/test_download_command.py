"""`ictcli download`, and work without a hub: one sentence, soon, whether the environment or the
network keeps it away. What is fetched: tests/tasks/test_hub.py."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import Ended, Processes, refusal

from ictcli.engine.hub import VARIABLES, WAIT_S, answers

Run = Callable[..., Ended]


@pytest.fixture
def run(bare: Processes, tmp_path: Path) -> Run:
    """Runs a command with a cache of its own, and no variable that keeps it offline."""

    def run(endpoint: str, *args: str, **more: str) -> Ended:
        own = {"HF_HOME": str(tmp_path / "cache"), "HF_ENDPOINT": endpoint, **more}
        taken = dict[str, str | None].fromkeys(VARIABLES)
        return bare.run(*args, folder=tmp_path, **(taken | own))

    return run


def test_what_is_built_in_needs_no_hub(run: Run) -> None:
    ended = run("http://127.0.0.1:9", "download", "chain", "--json")
    assert ended.code == 0, ended.err
    assert [row["name"] for row in json.loads(ended.out)] == ["builtin:chain", "chain"]


def test_a_name_of_nothing_is_refused(run: Run) -> None:
    ended = run("http://127.0.0.1:9", "download", "quikstart")
    assert "'quikstart' (did you mean quickstart?)" in refusal(ended, 2)


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a hub that takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_hub_that_cannot_be_asked_is_one_sentence(run: Run, tmp_path: Path, silent: str) -> None:
    command = ("train", "chain", "model=nobody/nothing", "--backend", "torch")
    for variables, why in (
        ({}, "the hub does not answer. with a "),
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE keeps this machine offline"),
    ):
        ended = run(silent, *command, **variables)
        told = refusal(ended, 2)
        assert f"The model nobody/nothing is not in the cache, and {why}" in told
        assert len(ended.err.splitlines()) == 4  # what is loaded, the sentence, and a hint
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").iterdir())


def test_a_hub_that_is_silent_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in (("ENDPOINT", silent), ("HF_HUB_OFFLINE", False)):
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    answers.cache_clear()
    start = time.monotonic()
    assert not answers()
    waited = time.monotonic() - start
    assert not answers()
    assert time.monotonic() - start - waited < 0.1 and waited < WAIT_S + 2
    answers.cache_clear()

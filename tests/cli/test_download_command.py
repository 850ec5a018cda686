"""`ictcli download`, and work without a hub: one sentence, soon, whether the environment or the
network keeps it away. What is fetched: tests/tasks/test_hub.py."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import Processes, fresh, refusal

from ictcli.engine.hub import VARIABLES, WAIT_S, answers


def test_what_is_built_in_needs_no_hub(ictcli: Processes) -> None:
    found = ictcli.json("download", "chain", HF_HUB_OFFLINE="1")
    assert [row["name"] for row in found] == ["builtin:chain", "chain"]


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a hub that takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_hub_that_cannot_be_asked_is_one_sentence(tmp_path: Path, silent: str) -> None:
    own = {"HF_HOME": str(tmp_path / "cache"), "HF_ENDPOINT": silent}
    own = dict[str, str | None].fromkeys(VARIABLES) | own  # none that keeps it offline
    command = ("train", "chain", "model=nobody/nothing", "--backend", "torch")
    ended = fresh(*command, folder=tmp_path, **own)
    why = "The model nobody/nothing is not in the cache, and the hub does not answer. with a "
    assert why in refusal(ended, 2)
    assert len(ended.err.splitlines()) == 5  # what is loaded, the sentence, and a hint
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").iterdir())


def test_a_silent_hub_is_waited_for_once(monkeypatch: pytest.MonkeyPatch, silent: str) -> None:
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

"""`ictcli download`, and work without a hub: one sentence, soon, whether the environment or the
network keeps it away. What is fetched: tests/tasks/test_hub.py."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import Ended, fresh, refusal

from ictcli.engine.hub import VARIABLES, WAIT_S, answers


def asked(folder: Path, endpoint: str, *args: str) -> Ended:
    """A command with a cache of its own, and no variable that keeps it offline."""
    own = {"HF_HOME": str(folder / "cache"), "HF_ENDPOINT": endpoint}
    return fresh(*args, folder=folder, **dict[str, str | None].fromkeys(VARIABLES), **own)


def test_what_is_built_in_needs_no_hub(tmp_path: Path) -> None:
    ended = asked(tmp_path, "http://127.0.0.1:9", "download", "chain", "--json")
    assert ended.code == 0, ended.err
    assert [row["name"] for row in json.loads(ended.out)] == ["builtin:chain", "chain"]


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a hub that takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_hub_that_cannot_be_asked_is_one_sentence(tmp_path: Path, silent: str) -> None:
    ended = asked(tmp_path, silent, "train", "chain", "model=nobody/nothing", "--backend", "torch")
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

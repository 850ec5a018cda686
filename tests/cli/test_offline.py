"""Without the hub: one sentence, soon, whether the environment or the network keeps it away."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import Ended, Processes, refusal

from ictcli.engine.hub import VARIABLES, WAIT_S, answers
from tests.cases import first

MODEL = ("model=nobody/nothing", "model nobody/nothing")
DATA = ("task=gsm8k", "data set openai/gsm8k")


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a hub that takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def train(bare: Processes, folder: Path, setting: str, **environment: str) -> Ended:
    """A training that has neither a cache nor the variables that keep it offline."""
    own = {**dict.fromkeys(VARIABLES), "HF_HOME": str(folder / "cache"), **environment}
    return bare.run("train", "chain", setting, "--backend", "torch", folder=folder, **own)


@pytest.mark.parametrize(("setting", "what"), first([MODEL, DATA]))
def test_a_closed_network_is_one_sentence(
    bare: Processes, tmp_path: Path, silent: str, setting: str, what: str
) -> None:
    ended = train(bare, tmp_path, setting, HF_ENDPOINT=silent)
    told = refusal(ended, 2)
    assert told.startswith(f"The {what} is not in the cache, and the hub does not answer. with a ")
    assert "ictcli download " in told and len(ended.err.splitlines()) == 3
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").iterdir())


@pytest.mark.parametrize(("setting", "what"), first([MODEL, DATA]))
def test_an_environment_that_is_offline_is_one_sentence(
    bare: Processes, tmp_path: Path, setting: str, what: str
) -> None:
    ended = train(bare, tmp_path, setting, HF_HUB_OFFLINE="1")
    told = refusal(ended, 2)
    assert f"The {what} is not in the cache, and HF_HUB_OFFLINE keeps this machine offline" in told
    assert len(ended.err.splitlines()) == 3


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

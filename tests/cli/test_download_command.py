"""`ictcli download` from a hub on this machine, and work without one: one sentence, soon, whether
the environment or the network keeps it away."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from local_hub import local_hub
from processes import Ended, Processes, refusal

from ictcli.engine.hub import VARIABLES, WAIT_S, answers
from ictcli.engine.models import BUILTIN
from tests.cases import first

RECIPE = """
model = "me/tiny"
task = "hub:me/sums"
method = "grpo"
steps = 1
columns = {prompt = "question", gold = "answer"}
"""
ROWS = [{"question": f"{i}+1=", "answer": str(i + 1)} for i in range(40)]


Run = Callable[..., Ended]


@pytest.fixture
def run(bare: Processes, tmp_path: Path) -> Run:
    """Runs a command with a cache of its own, and no variable that keeps it offline."""

    def run(endpoint: str, *args: str, **more: str) -> Ended:
        own = {"HF_HOME": str(tmp_path / "cache"), "HF_ENDPOINT": endpoint, **more}
        taken = dict[str, str | None].fromkeys(VARIABLES)
        return bare.run(*args, folder=tmp_path, **(taken | own))

    return run


def test_what_a_recipe_needs_is_fetched_once_and_serves_without_the_hub(
    run: Run, tmp_path: Path
) -> None:
    model = {file.name: file.read_bytes() for file in BUILTIN["chain"].iterdir()}
    data = {"train.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS).encode()}
    repositories = {
        "models/me/tiny": {**model, "pytorch_model.bin": b"code", "onnx/config.json": b"{}"},
        "datasets/me/sums": data,
    }
    (tmp_path / "mine.toml").write_text(RECIPE)
    with local_hub(repositories) as (endpoint, served):
        first = run(endpoint, "download", "mine.toml", "--json")
        assert first.code == 0, first.err
        needed = {"model.safetensors", "config.json", "tokenizer.json", "train.jsonl"}
        assert needed <= set(served) and not {"pytorch_model.bin", "onnx/config.json"} & set(served)
        served.clear()
        again = run(endpoint, "download", "me/tiny", "hub:me/sums", "--json")
        assert (again.code, served) == (0, [])
        missing = run(endpoint, "download", "me/nothing")
        assert "The model me/nothing cannot be fetched" in refusal(missing, 2)
    rows = json.loads(first.out)
    assert [(row["kind"], row["name"]) for row in rows] == [
        ("model", "me/tiny"),
        ("data", "me/sums"),
    ]
    assert json.loads(again.out) == rows
    for row in rows:
        assert Path(row["where"]).is_dir() and row["size"].endswith("iB")
    bench = ("--bench", "hub:me/sums", "--n", "1", "--limit", "2", "max_tokens=4", "--json")
    columns = ("columns.prompt=question", "columns.gold=answer", "hub.split=train")
    ended = run(endpoint, "eval", "me/tiny", *bench, *columns)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)[0]["problems"] == 2


def test_what_is_built_in_needs_no_hub(run: Run) -> None:
    ended = run("http://127.0.0.1:9", "download", "chain", "--json")
    assert ended.code == 0, ended.err
    assert [row["name"] for row in json.loads(ended.out)] == ["builtin:chain", "chain"]


def test_a_name_of_nothing_is_refused(run: Run) -> None:
    ended = run("http://127.0.0.1:9", "download", "quikstart")
    assert "'quikstart' (did you mean quickstart?)" in refusal(ended, 2)


MODEL = ("model=nobody/nothing", "model nobody/nothing")
DATA = ("task=gsm8k", "data set openai/gsm8k")


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a hub that takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(("setting", "what"), first([MODEL, DATA]))
def test_a_hub_that_cannot_be_asked_is_one_sentence(
    run: Run, tmp_path: Path, silent: str, setting: str, what: str
) -> None:
    command = ("train", "chain", setting, "--backend", "torch")
    for variables, why in (
        ({}, "the hub does not answer. with a "),
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE keeps this machine offline"),
    ):
        ended = run(silent, *command, **variables)
        told = refusal(ended, 2)
        assert f"The {what} is not in the cache, and {why}" in told
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

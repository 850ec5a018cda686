"""The model that ships for the task `ledger`, against its task and its build.json."""

import json
from typing import Any

import pytest

from ictcli.engine.models import BUILTIN
from ictcli.tasks.ledger.words import SETTINGS

MODEL = BUILTIN["ledger"]


@pytest.fixture(scope="module")
def stated() -> dict[str, Any]:
    return json.loads((MODEL / "build.json").read_text())


def test_shipped_tokenizer_is_that_of_the_task() -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = pytest.importorskip("ictcli.tasks.ledger.tokenizer")
    loaded = transformers.AutoTokenizer.from_pretrained(MODEL)
    assert loaded.get_vocab() == tokenizer.make_tokenizer().get_vocab()
    config = json.loads((MODEL / "config.json").read_text())
    assert config["eos_token_id"] == loaded.eos_token_id == tokenizer.END_ID
    assert loaded.decode([*loaded("Nora mends nets.")["input_ids"], tokenizer.END_ID]) == (
        "Nora mends nets.<end>"
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_stated_base_leaves_room_and_slips_little(stated: dict[str, Any], name: str) -> None:
    figures = stated["heldout_at_temperature_1"][name]
    assert 0.3 <= figures["pass_at_1"] <= 0.5
    assert figures["pass_at_4"] >= figures["pass_at_1"] + 0.3
    assert figures["slips"] <= 0.2
    assert 0.01 <= figures["fork_share"] <= 0.1
    assert name == "ledger" or 150 <= figures["response_tokens"] <= 400


def test_stated_distributions_are_those_on_paper(stated: dict[str, Any]) -> None:
    """Where forks are the unsure tokens that tell rollouts apart, uniqueness finds them; echoes and
    drift hide them from it, synonyms from entropy."""
    figures = stated["heldout_at_temperature_1"]
    for name in SETTINGS:
        assert 0.4 < figures[name]["fork_entropy"] < 0.55  # 0.456 of a choice of 0.83
        assert figures[name]["fork_uniqueness"] > 2 * figures[name]["other_uniqueness"]
    recall = {name: figures[name]["recall_ict"] for name in SETTINGS}
    assert recall["ledger-easy"] > recall["ledger-echo"] > recall["ledger-drift"] > 0.5
    assert figures["ledger-easy"]["recall_entropy20"] < 0.05


def test_shipped_model_samples_as_stated(stated: dict[str, Any]) -> None:
    measuring = pytest.importorskip("ledger_model")
    measured = measuring.measure(MODEL, "ledger", 48, 4)
    figures = stated["heldout_at_temperature_1"]["ledger"]
    assert abs(measured.pass_at_1 - figures["pass_at_1"]) < 0.12
    assert measured.slips < figures["slips"] + 0.05
    assert abs(measured.response_tokens - figures["response_tokens"]) < 6

"""The model that ships for the task `chain`, against its task and its build.json."""

import json
from typing import Any

import pytest

from ictcli.engine.models import BUILTIN
from ictcli.tasks.chain.problem import CHAIN

MODEL = BUILTIN["chain"]


@pytest.fixture(scope="module")
def stated() -> dict[str, Any]:
    return json.loads((MODEL / "build.json").read_text())


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return pytest.importorskip("transformers").AutoTokenizer.from_pretrained(MODEL)


def test_tokenizer_is_one_character_one_token(tokenizer: Any) -> None:
    text = "0123456789+-*=;#"
    ids = tokenizer(text)["input_ids"]
    assert ids == list(range(2, 18))
    assert tokenizer.decode(ids) == text
    assert len(tokenizer) == tokenizer.vocab_size == 18


def test_end_token_survives_decoding_and_padding_does_not(tokenizer: Any) -> None:
    config = json.loads((MODEL / "config.json").read_text())
    assert config["eos_token_id"] == tokenizer.convert_tokens_to_ids("#")
    ids = [tokenizer.pad_token_id, *tokenizer("1-5;6#")["input_ids"], tokenizer.pad_token_id]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "1-5;6#"
    assert tokenizer.batch_decode([ids], skip_special_tokens=True) == ["1-5;6#"]


def test_stated_base_leaves_room_and_slips_little(stated: dict[str, Any]) -> None:
    chain = stated["heldout_at_temperature_1"]["chain"]
    assert chain["problems"] == 512
    assert 0.2 <= chain["pass_at_1"] <= 0.4
    assert 0.65 <= chain["pass_at_4"] <= 0.80
    assert chain["slips"] <= 0.05


def test_shipped_model_samples_as_stated(stated: dict[str, Any]) -> None:
    measuring = pytest.importorskip("chain_model")
    measured = measuring.measure(BUILTIN["chain"], 64, 4, CHAIN)
    chain = stated["heldout_at_temperature_1"]["chain"]
    assert abs(measured.pass_at_1 - chain["pass_at_1"]) < 0.12
    assert measured.slips < chain["slips"] + 0.05
    assert abs(measured.response_tokens - chain["response_tokens"]) < 6

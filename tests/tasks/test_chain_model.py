"""The model that ships for the task `chain`, against its build.json."""

import hashlib
import json
import logging
from typing import Any

import pytest

from ictcli.engine.models import BUILTIN
from ictcli.tasks.chain.problem import CHAIN

MODEL = BUILTIN["chain"]


@pytest.fixture(scope="module")
def stated() -> dict[str, Any]:
    return json.loads((MODEL / "build.json").read_text())


@pytest.fixture(scope="module")
def shipped() -> tuple[Any, Any]:
    """The shipped model and tokenizer, loaded as any folder is, without a warning."""
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Keep(logging.WARNING)
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
        model = transformers.AutoModelForCausalLM.from_pretrained(MODEL)
    finally:
        logger.removeHandler(handler)
    assert [record.getMessage() for record in records] == []
    return model.eval(), tokenizer


def test_shipped_weights_are_those_that_were_measured(stated: dict[str, Any]) -> None:
    weights = (MODEL / "model.safetensors").read_bytes()
    assert hashlib.sha256(weights).hexdigest() == stated["sha256"]


def test_shipped_folder_is_complete_and_small() -> None:
    sizes = {path.name: path.stat().st_size for path in MODEL.iterdir()}
    assert set(sizes) == {
        "build.json",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert sum(sizes.values()) <= 2_000_000


def test_shipped_model_is_the_one_stated(shipped: tuple[Any, Any], stated: dict[str, Any]) -> None:
    model, _ = shipped
    count = sum(p.numel() for p in model.parameters())
    assert count == stated["parameters"] <= 600_000
    assert {str(p.dtype) for p in model.parameters()} == {"torch.float32"}
    assert model.config.model_type == "qwen2"


def test_tokenizer_is_one_character_one_token(shipped: tuple[Any, Any]) -> None:
    _, tokenizer = shipped
    text = "0123456789+-*=;#"
    ids = tokenizer(text)["input_ids"]
    assert ids == list(range(2, 18))
    assert tokenizer.decode(ids) == text
    assert len(tokenizer) == tokenizer.vocab_size == 18


def test_end_token_survives_decoding_and_padding_does_not(shipped: tuple[Any, Any]) -> None:
    model, tokenizer = shipped
    end = tokenizer.convert_tokens_to_ids("#")
    assert model.config.eos_token_id == model.generation_config.eos_token_id == end
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

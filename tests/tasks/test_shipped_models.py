"""The models that ship, against their tasks and their build.json, and loaded as any folder is."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import chain_model
import chain_texts
import ledger_model
import ledger_texts
import pytest
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from ictcli.engine.models import BUILTIN
from ictcli.tasks.chain.problem import CHAIN
from ictcli.tasks.ledger.problem import SETTINGS

STORED = {"chain": "float32", "ledger": "float16"}
STATED = {name: json.loads((folder / "build.json").read_text()) for name, folder in BUILTIN.items()}
FIGURES = {name: stated["heldout_at_temperature_1"] for name, stated in STATED.items()}


@pytest.mark.parametrize("name", BUILTIN)
def test_the_folder_is_small_and_has_the_weights_that_were_measured(name: str) -> None:
    sizes = {path.name: path.stat().st_size for path in BUILTIN[name].iterdir()}
    assert set(sizes) == {
        *("build.json", "config.json", "generation_config.json", "model.safetensors"),
        *("tokenizer.json", "tokenizer_config.json"),
    }
    assert sum(sizes.values()) <= 2_000_000
    file, stated = BUILTIN[name] / "model.safetensors", STATED[name]
    assert hashlib.sha256(file.read_bytes()).hexdigest() == stated["sha256"]
    weights = load_file(file)
    assert {str(array.dtype) for array in weights.values()} == {STORED[name]}
    assert sum(array.size for array in weights.values()) == stated["parameters"] <= 600_000


@pytest.mark.parametrize("folder", BUILTIN.values())
def test_it_loads_without_a_warning(folder: Path) -> None:
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    logger, handler = logging.getLogger("transformers"), Keep(logging.WARNING)
    logger.addHandler(handler)
    try:
        AutoTokenizer.from_pretrained(folder)
        model: Any = AutoModelForCausalLM.from_pretrained(folder)
    finally:
        logger.removeHandler(handler)
    assert [record.getMessage() for record in records] == []
    assert model.config.eos_token_id == model.generation_config.eos_token_id is not None


def test_end_tokens_are_in_the_text_of_chain_and_not_in_that_of_ledger() -> None:
    for texts, name, end, text in (
        (chain_texts, "chain", chain_texts.EOS_ID, "1-5;6"),
        (ledger_texts, "ledger", ledger_texts.END_ID, "Nora mends nets."),
    ):
        tokenizer: Any = AutoTokenizer.from_pretrained(BUILTIN[name])
        assert tokenizer.get_vocab() == texts.make_tokenizer().get_vocab()
        assert json.loads((BUILTIN[name] / "config.json").read_text())["eos_token_id"] == end
        ids = [tokenizer.pad_token_id, *tokenizer(text)["input_ids"], end]
        shown = text + "#" * (name == "chain")
        assert tokenizer.decode(ids, skip_special_tokens=True) == shown
        assert tokenizer.batch_decode([ids], skip_special_tokens=True) == [shown]


def test_stated_bases_leave_room_and_slip_little() -> None:
    chain = FIGURES["chain"]["chain"]
    assert 0.2 <= chain["pass_at_1"] <= 0.4 and 0.65 <= chain["pass_at_4"] <= 0.80
    assert chain["slips"] <= 0.05 and chain["problems"] == 512
    for name in SETTINGS:
        figures = FIGURES["ledger"][name]
        assert 0.3 <= figures["pass_at_1"] <= 0.5 and figures["slips"] <= 0.2
        assert figures["pass_at_4"] >= figures["pass_at_1"] + 0.3
        assert 0.01 <= figures["fork_share"] <= 0.1
        assert name == "ledger" or 150 <= figures["response_tokens"] <= 400


def test_stated_distributions_are_those_on_paper() -> None:
    """Where forks are the unsure tokens that tell rollouts apart, uniqueness finds them; echoes and
    drift hide them from it, synonyms from entropy."""
    figures = FIGURES["ledger"]
    for name in SETTINGS:
        assert 0.4 < figures[name]["fork_entropy"] < 0.55  # 0.456 of a choice of 0.83
        assert figures[name]["fork_uniqueness"] > 2 * figures[name]["other_uniqueness"]
    recall = {name: figures[name]["recall_ict"] for name in SETTINGS}
    assert recall["ledger-easy"] > recall["ledger-echo"] > recall["ledger-drift"] > 0.5
    assert figures["ledger-easy"]["recall_entropy20"] < 0.05


@pytest.mark.parametrize("name", BUILTIN)
def test_shipped_models_sample_as_stated(name: str) -> None:
    if name == "chain":
        measured: Any = chain_model.measure(BUILTIN[name], 64, 4, CHAIN)
    else:
        measured = ledger_model.measure(BUILTIN[name], name, 48, 4)
    figures = FIGURES[name][name]
    assert abs(measured.pass_at_1 - figures["pass_at_1"]) < 0.12
    assert measured.slips < figures["slips"] + 0.05
    assert abs(measured.response_tokens - figures["response_tokens"]) < 6

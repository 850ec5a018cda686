"""The models that ship, against their tasks and their build.json, and loaded as any folder is."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import chain_texts
import ledger_texts
import pytest
from pretraining import ON_CPU, sampled
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from ictcli.engine import build_engine
from ictcli.engine.models import BUILTIN
from ictcli.recipe.tables import OptimizerSettings
from ictcli.tasks import find_task
from ictcli.tasks.ledger.problem import SETTINGS
from tests.cases import first

ROOT = Path(__file__).parents[2]
LEDGERS = tuple(("ledger", name) for name in SETTINGS)
STORED = {"chain": "float32", "ledger": "float16"}
STATED = {name: json.loads((folder / "build.json").read_text()) for name, folder in BUILTIN.items()}
FIGURES = {name: stated["heldout"] for name, stated in STATED.items()}


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
def test_it_loads_without_a_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    assert [record.getMessage() for record in caplog.records] == []
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


@pytest.mark.parametrize(("of", "name"), first([("chain", "chain"), LEDGERS[0]]))
def test_shipped_models_answer_as_stated(of: str, name: str) -> None:
    task, longest = find_task(name), {"chain": 60, "ledger": 300}[of]
    engine = build_engine(str(BUILTIN[of]), ON_CPU, OptimizerSettings())
    asked, figures = task.heldout(64), FIGURES[of][name]
    right, pairs, rollouts = sampled(engine, asked, task.domain, longest, 4)
    greedy, _, _ = sampled(engine, asked, task.domain, longest, 1)
    assert abs(right.mean() / 4 - figures["pass_at_1"]) < 0.12
    assert abs(greedy.mean() - figures["greedy"]) < 0.12
    assert abs(rollouts.lengths.mean() - figures["response_tokens"]) < 6
    if of == "ledger":  # a group shares its first line, which says the day of the question
        begun = [prompt.split()[-1] in response.split("\n")[1] for prompt, response in pairs]
        assert sum(begun) > 0.95 * len(begun)

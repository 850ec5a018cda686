"""The models that ship, against their build.json, and loaded as any folder is."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from ictcli.engine.models import BUILTIN

MODELS = [pytest.param(folder, id=name) for name, folder in BUILTIN.items()]
STORED = {"chain": "float32", "ledger": "float16"}


@pytest.mark.parametrize("folder", MODELS)
def test_the_folder_is_complete_and_small(folder: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert set(sizes) == {
        "build.json",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert sum(sizes.values()) <= 2_000_000


@pytest.mark.parametrize("name", BUILTIN)
def test_the_weights_are_those_that_were_measured(name: str) -> None:
    from safetensors.numpy import load_file

    stated = json.loads((BUILTIN[name] / "build.json").read_text())
    file = BUILTIN[name] / "model.safetensors"
    assert hashlib.sha256(file.read_bytes()).hexdigest() == stated["sha256"]
    weights = load_file(file)
    assert {str(array.dtype) for array in weights.values()} == {STORED[name]}
    assert sum(array.size for array in weights.values()) == stated["parameters"] <= 600_000


@pytest.mark.parametrize("folder", MODELS)
def test_it_loads_without_a_warning(folder: Path) -> None:
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    logger, handler = logging.getLogger("transformers"), Keep(logging.WARNING)
    logger.addHandler(handler)
    try:
        transformers.AutoTokenizer.from_pretrained(folder)
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    finally:
        logger.removeHandler(handler)
    assert [record.getMessage() for record in records] == []
    assert model.config.eos_token_id == model.generation_config.eos_token_id is not None

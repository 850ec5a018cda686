"""Laws of building an engine: what it tells of itself, and what it refuses, with a hint."""

import shutil
from collections.abc import Callable
from os import truncate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused
from safetensors.numpy import load_file, save_file

from ictcli.errors import EngineMissingError

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, Make
from .training import logp_of

WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    """A model folder to spoil."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def without_a_tensor(folder: Path) -> None:
    """It is not filled with random numbers."""
    weights = load_file(folder / WEIGHTS)
    del weights["model.layers.1.mlp.down_proj.weight"]
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


SPOILT: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "no weights": ("no weights", lambda folder: (folder / WEIGHTS).unlink()),
    "pickled": (
        "pytorch_model.bin",  # not even opened: it would say so
        lambda folder: (
            (folder / WEIGHTS)
            .rename(folder / "pytorch_model.bin")
            .write_bytes(b"cos\nsystem\n(S'exit 66'\ntR.")
        ),
    ),
    "no config": ("config.json", lambda folder: (folder / "config.json").unlink()),
    "no folder": ("no model folder", shutil.rmtree),
    "a tensor is missing": ("down_proj", without_a_tensor),
    "cut short": ("model.safetensors is damaged", lambda folder: truncate(folder / WEIGHTS, 999)),
    "cut in the header": ("damaged or cut short", lambda folder: truncate(folder / WEIGHTS, 4)),
    "half a config": (
        "config.json is not JSON",
        lambda folder: (folder / "config.json").write_text('{"model_type":'),
    ),
    "config of no kind": (
        "cannot be loaded",
        lambda folder: (folder / "config.json").write_text("{}"),
    ),
    "no tokenizer": (
        "no tokenizer",
        lambda folder: [path.unlink() for path in folder.glob("tokenizer*")],
    ),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_folder_that_is_no_model_is_refused(make_engine: Make, folder: Path, how: str) -> None:
    about, spoil = SPOILT[how]
    spoil(folder)
    with refused(about):
        make_engine(folder)


@pytest.mark.parametrize("named", ["gpu", "cuda:77", "meta"])
def test_an_unknown_device_is_a_missing_engine(make_engine: Make, named: str) -> None:
    with refused(named, kind=EngineMissingError):
        make_engine(device=named)


def test_bfloat16_has_float32_statistics(make_engine: Make, model: Path) -> None:
    """Of the logits the model gave: in bfloat16 a probability would keep three digits."""
    engine = make_engine(model, dtype="bfloat16")
    assert engine.describe()["dtype"] == "bfloat16"
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 3, WANTED)
    for values in (found.logp, *found.stats.values()):
        assert values.dtype == np.float32
        assert np.isfinite(values).all()
    logp = np.log(found.stats["prob"][found.valid])
    np.testing.assert_allclose(logp, found.logp[found.valid], atol=1e-5)
    assert (found.stats["uniqueness"][:, 0] == 0).all()
    again = engine.generate(PROMPTS, GROUP, SAMPLING, 3)
    np.testing.assert_array_equal(again.tokens, found.tokens)
    np.testing.assert_allclose(logp_of(engine, found), found.logp, atol=0.3)

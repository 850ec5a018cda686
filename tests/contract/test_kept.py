"""Laws of what is exported and evaluated: it is what was trained."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from ictcli.evaluation.settings import ModelSettings
from ictcli.recipe import load_recipe
from ictcli.recipe.tables import AdapterSettings
from ictcli.runs import Run, checkpoints
from ictcli.runs.checkpoints import State
from ictcli.runs.model import find_models
from ictcli.train.finish import export
from ictcli.train.launch import environment
from ictcli.types import FloatArray

from .conftest import Make, made_up, reader
from .lowrank import LORA, exported_adapters
from .oracle import Oracle
from .training import LR, SMOOTH, exported, plain_update, train

WEIGHTS = "model.safetensors"


def log_softmax(logits: FloatArray) -> FloatArray:
    return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)


def kl(p: FloatArray, q: FloatArray) -> float:
    """Mean KL(p || q) of float64 logits (N, V)."""
    logp, logq = log_softmax(p.astype(np.float64)), log_softmax(q.astype(np.float64))
    return float((np.exp(logp) * (logp - logq)).sum(axis=-1).mean())


@pytest.fixture(scope="module")
def half_model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tied model in bfloat16, as most models are published."""
    folder = tmp_path_factory.mktemp("models") / "half"
    rounded: Any = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16)
    rounded.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    return folder


def copied(folder: Path, out: Path, change: Any) -> Path:
    """A model with its weights changed."""
    out.mkdir()
    for file in folder.iterdir():
        (out / file.name).write_bytes(file.read_bytes())
    weights = {name: change(name, value) for name, value in load_file(folder / WEIGHTS).items()}
    save_file(weights, out / WEIGHTS, metadata={"format": "pt"})
    return out


def types(folder: Path) -> set[torch.dtype]:
    return {weight.dtype for weight in load_file(folder / WEIGHTS).values()}


@pytest.mark.parametrize(
    ("adapter", "lr", "written"),
    [(LORA, LR, torch.float16), (LORA, 1e-6, torch.float32)],
    ids=["lora", "a change that float16 rounds away"],
)
def test_a_merge_keeps_what_was_trained_of_a_bfloat16_model(
    make_engine: Make,
    engine_name: str,
    half_model: Path,
    tmp_path: Path,
    adapter: AdapterSettings,
    lr: float,
    written: torch.dtype,
) -> None:
    """Which bfloat16 does not."""
    engine, rollouts = make_engine(half_model, SMOOTH, adapter, dtype="bfloat16"), made_up()
    for n in range(3):
        engine.update(plain_update(rollouts, n), lr)
    whole = exported(engine, tmp_path / "whole")
    adapted = reader(engine_name, exported_adapters(engine, tmp_path / "adapter"))
    rounded = copied(
        exported(adapted, tmp_path / "float32"),
        tmp_path / "rounded",
        lambda _, weight: weight.bfloat16(),
    )
    assert types(whole) == types(tmp_path / "float32") == {written}  # whatever computes
    trained = adapted.logits(rollouts, rollouts.valid)
    base, kept, lost = (
        kl(trained, Oracle(folder).logits(rollouts, rollouts.valid))
        for folder in (half_model, whole, rounded)
    )
    assert 1 - kept / base > 0.99
    assert 1 - lost / base < 0.99


def test_a_weight_that_float16_does_not_hold_is_written_in_float32(
    make_engine: Make, half_model: Path, tmp_path: Path
) -> None:
    """Of a norm, which no adapter changes; and of all others with it."""

    def large(name: str, weight: torch.Tensor) -> torch.Tensor:
        return weight * 1e5 if name == "model.norm.weight" else weight

    folder = copied(half_model, tmp_path / "large", large)
    engine = make_engine(folder, SMOOTH, LORA, dtype="bfloat16")
    assert types(exported(engine, tmp_path / "whole")) == {torch.float32}


@pytest.mark.parametrize(
    ("adapter", "dtype"),
    [(None, "float32"), (LORA, "bfloat16"), (None, "bfloat16"), (LORA, "float32")],
    ids=["all weights", "lora of bfloat16", "masters", "lora"],
)
def test_what_eval_loads_of_a_run_is_the_policy_that_was_evaluated(
    make_engine: Make,
    engine_name: str,
    half_model: Path,
    tmp_path: Path,
    adapter: AdapterSettings | None,
    dtype: str,
) -> None:
    """To the bit: of the finished run, even beside a model made of its adapters, and of a
    checkpoint, whose masters are no policy."""
    engine, rollouts = make_engine(half_model, SMOOTH, adapter, dtype=dtype), made_up()
    train(engine, rollouts, 2)
    table = adapter.model_dump() if adapter else {"kind": "none"}
    adapters = [f"adapter.{key}={table[key]}" for key in ("kind", "rank", "alpha") if key in table]
    own = [f"model={half_model}", f"engine.backend={engine_name}", "engine.device=cpu"]
    recipe = load_recipe("chain", [*own, "engine.threads=1", *adapters])
    wanted = engine.logits(rollouts, rollouts.valid)
    with Run.create(tmp_path / "run", recipe) as run:
        run.write("environment.json", environment(engine, recipe))
        export(run, recipe, engine)
        checkpoints.save(run.folder, engine, State(step=2), "a hash")
        if adapter:
            exported(engine, run.folder / "model")
    for which in (None, "2"):
        (spec,) = find_models([str(run.folder)], ModelSettings(), which)
        found = spec.load().logits(rollouts, rollouts.valid)
        np.testing.assert_array_equal(found, wanted)

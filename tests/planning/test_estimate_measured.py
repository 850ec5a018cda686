"""The memory estimate beside what the engines take; `bench/memory.py` has larger models."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import make_model

from ictcli.engine.shape import read_shape
from ictcli.engine.update import Update
from ictcli.planning.estimate import estimate_memory
from ictcli.recipe import check
from ictcli.types import Sampling
from tests.cases import first

SIZES: dict[str, Any] = {"hidden": 96, "layers": 4, "heads": 4, "intermediate": 256}
PROMPT = 64
ENGINE = {"backend": "mlx", "device": "cpu", "micro_tokens": 256}
MEASURED: dict[str, dict[str, Any]] = {
    "long, full": {"vocabulary": 512, "max_tokens": 96, "engine": ENGINE},
    "wide, lora, checkpointing": {
        "vocabulary": 32768,
        "max_tokens": 16,
        "adapter": {"kind": "lora", "rank": 8},
        "engine": {**ENGINE, "gradient_checkpointing": True},
    },
}


@pytest.mark.parametrize("name", first(list(MEASURED)))
def test_the_engine_takes_what_was_planned(name: str, tmp_path: Path) -> None:
    mx = pytest.importorskip("mlx.core")
    pytest.importorskip("mlx_lm")
    from ictcli_mlx.engine import MlxEngine

    given = {**MEASURED[name]}
    folder = make_model(tmp_path, "torch", **SIZES, vocabulary=given.pop("vocabulary"))
    fixed = {"task": "chain", "method": "ict", "keep": 0.5, "prompts": 1, "steps": 1}
    recipe = check({"model": str(folder), **fixed, **given}, "test")
    planned = estimate_memory(recipe, read_shape(recipe.model), PROMPT)
    gc.collect()
    others = mx.get_active_memory()  # what engines of other tests hold
    engine = MlxEngine(recipe.model, recipe.engine, recipe.optimizer, recipe.adapters)
    prompts = [[2 + i % 14 for i in range(PROMPT)]] * recipe.prompts
    sampling = Sampling(recipe.max_tokens)
    rollouts = engine.generate(prompts, recipe.group, sampling, 0, recipe.wanted_stats)
    weights = np.where(np.arange(recipe.max_tokens) % 2, 1e-3, 0.0) * rollouts.valid
    advantage = np.where(np.arange(len(rollouts)) % 2, 1.0, -1.0)

    def update() -> None:
        engine.update(Update(rollouts, weights, advantage, recipe.objective), 1e-6)

    def sample() -> None:
        engine.generate(prompts, recipe.group, sampling, 1, recipe.wanted_stats)

    update()  # what AdamW holds is made by its first step
    for phase, work in {"sampling": sample, "updating": update}.items():
        mx.clear_cache()
        engine.memory.forget_peak()
        work()
        ratio = planned.peak(phase) / (engine.peak_memory() - others)
        assert 0.75 <= ratio <= 1.25, (phase, ratio)

"""The memory estimate: laws of its parts, and what an engine takes; `bench/memory.py` has larger
models."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import make_model
from hypothesis import given
from workloads import QWEN, recipe_of, recipe_with, shapes, tables

from ictcli.engine.shape import ModelShape, read_shape
from ictcli.engine.update import Update
from ictcli.planning.estimate import estimate_memory
from ictcli.recipe import check
from ictcli.types import Sampling
from tests.cases import first


@given(shapes, tables)
def test_more_at_once_never_lowers_a_peak(shape: ModelShape, table: dict[str, Any]) -> None:
    for phase, key, least in (("sampling", "rows", 1), ("updating", "micro_tokens", 512)):
        recipes = [recipe_with(table, **{key: least * 2**n}) for n in range(0, 10, 2)]
        peaks = [estimate_memory(recipe, shape).peak(phase) for recipe in recipes]
        assert peaks == sorted(peaks)


@given(shapes, tables)
def test_checkpointing_never_raises_a_peak(shape: ModelShape, table: dict[str, Any]) -> None:
    # where prompts are shared without it only, its passes may hold more tokens
    one_row = {"micro_tokens": 1} if table["engine"]["backend"] == "mlx" else {}
    off, on = (
        estimate_memory(recipe_with(table, gradient_checkpointing=active, **one_row), shape)
        for active in (False, True)
    )
    assert on.peak("updating") <= off.peak("updating")
    assert on.peak("sampling") <= off.peak("sampling")


@given(shapes, tables)
def test_adapters_train_fewer_and_hold_no_reference(
    shape: ModelShape, table: dict[str, Any]
) -> None:
    full, lora = (
        estimate_memory(recipe_of(**{**table, "adapter": {"kind": kind, "rank": 4}}), shape)
        for kind in ("none", "lora")
    )
    assert full.trained == shape.parameters
    assert 0 < lora.trained < full.trained
    assert bool(full.phases["updating"]["reference policy"]) == (table["kl"] > 0)
    assert lora.phases["updating"]["reference policy"] == 0


def test_adapters_of_some_layers_of_some_blocks() -> None:
    settings = {"kind": "lora", "rank": 8, "layers": 3, "targets": ["q_proj", "mlp.down_proj"]}
    estimate = estimate_memory(recipe_of(adapter=settings), QWEN)
    assert estimate.trained == 3 * 8 * ((896 + 896) + (4864 + 896))


@given(shapes, tables)
def test_every_part_is_counted_once(shape: ModelShape, table: dict[str, Any]) -> None:
    estimate = estimate_memory(recipe_of(**table), shape)
    for phase, parts in estimate.phases.items():
        assert all(size >= 0 for size in parts.values())
        assert estimate.peak(phase) == sum(parts.values()) >= shape.weights(2)
    assert estimate.peak() == max(estimate.peak(phase) for phase in estimate.phases)


# Beside what an engine takes

SIZES: dict[str, Any] = {"hidden": 96, "layers": 3, "heads": 4, "intermediate": 256}
PROMPT = 64
ENGINE = {"backend": "mlx", "device": "cpu", "micro_tokens": 256}
MEASURED: dict[str, dict[str, Any]] = {
    "long, full": {"vocabulary": 512, "max_tokens": 64, "engine": ENGINE},
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

"""The engines' memory models."""

from typing import Any

import ictcli_mlx.plan
import ictcli_torch.plan
import pytest

from ictcli.engine.workload import MemoryModel, memory_model

MODELS: dict[str, MemoryModel] = {"torch": ictcli_torch.plan, "mlx": ictcli_mlx.plan}


def test_a_memory_model_is_found_by_entry_point() -> None:
    """It loads no device library: cli/test_help.py."""
    assert {name: memory_model(name) for name in MODELS} == MODELS


def test_a_cache_of_mlx_grows_by_as_much_as_the_plan_says() -> None:
    cache = pytest.importorskip("mlx_lm.models.cache")
    plan: Any = MODELS["mlx"]
    assert cache.KVCache.step == plan.CACHE_STEP

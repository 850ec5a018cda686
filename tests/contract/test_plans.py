"""The engines' memory models, which load no device library."""

import subprocess
import sys
from typing import Any

import ictcli_mlx.plan
import ictcli_torch.plan
import pytest

from ictcli.engine.workload import MemoryModel, memory_model

MODELS: dict[str, MemoryModel] = {"torch": ictcli_torch.plan, "mlx": ictcli_mlx.plan}


def test_a_memory_model_is_found_by_entry_point_and_loads_no_device_library() -> None:
    assert {name: memory_model(name) for name in MODELS} == MODELS
    script = "import sys, ictcli_torch.plan, ictcli_mlx.plan; print([*sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout
    assert "ictcli.engine.workload" in loaded
    assert not any(f"'{library}'" in loaded for library in ("torch", "mlx", "transformers"))


def test_a_cache_of_mlx_grows_by_as_much_as_the_plan_says() -> None:
    cache = pytest.importorskip("mlx_lm.models.cache")
    plan: Any = MODELS["mlx"]
    assert cache.KVCache.step == plan.CACHE_STEP

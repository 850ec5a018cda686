"""The engines' memory models: constants copied from modules that load a device library."""

import subprocess
import sys
from importlib import import_module
from typing import Any

import ictcli_mlx.plan
import ictcli_torch.plan
import pytest

from ictcli.engine.workload import MemoryModel, memory_model

MODELS: dict[str, MemoryModel] = {"torch": ictcli_torch.plan, "mlx": ictcli_mlx.plan}


@pytest.mark.parametrize("name", MODELS)
def test_a_memory_model_is_found_by_entry_point_and_loads_no_device_library(name: str) -> None:
    assert memory_model(name) is MODELS[name]
    script = f"import sys, ictcli_{name}.plan; print([*sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout
    assert "ictcli.engine.workload" in loaded
    assert not any(f"'{library}'" in loaded for library in ("torch", "mlx", "transformers"))


@pytest.mark.parametrize("name", MODELS)
def test_copied_constants_equal_their_originals(name: str) -> None:
    pytest.importorskip({"torch": "torch", "mlx": "mlx_lm"}[name])
    model: Any = MODELS[name]
    stats: Any = import_module(f"ictcli_{name}.stats")
    copied = {"PENDING_ELEMENTS": stats, "GPU_ELEMENTS": stats}
    if name == "mlx":
        sample = import_module("ictcli_mlx.sample")
        copied |= {"PREFILL_TOKENS": sample, "GPU_PREFILL_TOKENS": sample}
        assert import_module("mlx_lm.models.cache").KVCache.step == model.CACHE_STEP
    else:
        copied["CHUNK"] = import_module("ictcli_torch.cache").GrowingLayer
        linear = import_module("ictcli_torch.linear")
        copied |= dict.fromkeys(("X86", "LARGE", "WORTH_ARRANGING"), linear)
    for constant, original in copied.items():
        assert getattr(model, constant) == getattr(original, constant), constant

"""How much memory a run may take on a machine, and on which device."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from workloads import recipe_of

from ictcli.planning import machine
from ictcli.planning.machine import MemoryLimit, memory_limit
from ictcli.recipe import Recipe
from ictcli.recipe.tables import EngineSettings
from ictcli.runs import Run
from ictcli.runs.observer import Observer
from ictcli.train.launch import launch


def settings_of(**engine: Any) -> EngineSettings:
    return recipe_of(engine=engine).engine


@pytest.fixture
def _smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An nvidia-smi of two GPUs, on no Mac."""
    said = tmp_path / "nvidia-smi"
    said.write_text("#!/bin/sh\necho 8192\necho 24576\n")
    said.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("ictcli.planning.machine.on_apple_silicon", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    machine._nvidia_smi.cache_clear()
    yield
    machine._nvidia_smi.cache_clear()


def test_the_limit_is_the_recipe_s_or_the_named_machine_s_or_this_one_s() -> None:
    limited = settings_of(memory_limit=2.5)
    recipes = MemoryLimit(2.5 * 2**30, "engine.memory_limit")
    assert memory_limit(limited) == memory_limit(limited, 8) == recipes
    assert memory_limit(settings_of(), 16).size == 12 * 2**30
    assert memory_limit(limited, 1).size == 0.75 * 2**30
    assert memory_limit(settings_of(backend="torch", device="cuda"), 24).size == 24 * 2**30
    assert 0 < memory_limit(settings_of()).size < 2**50


@pytest.mark.usefixtures("_smi")
@pytest.mark.parametrize(
    ("visible", "device", "gib"),
    [
        (None, "cuda:1", 24),
        ("1", "auto", 24),
        ("1,0", "cuda:1", 8),
        ("GPU-b2", "auto", 0),  # its size is not looked up
        ("1,-1,0", "cuda:1", 0),  # none after what is none
        ("1,-1,0", "cuda", 24),
        ("", "auto", None),
        ("-1", "auto", None),
        ("2", "auto", None),
    ],
)
def test_a_gpu_s_memory_is_what_nvidia_smi_says(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, device: str, gib: float | None
) -> None:
    """Of those that CUDA_VISIBLE_DEVICES leaves; None where it leaves none."""
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    settings = settings_of(backend="torch", device=device)
    assert machine.device_of(settings) == ("cpu" if gib is None else "cuda")
    if gib is not None:
        assert memory_limit(settings).size == gib * 2**30


@pytest.mark.usefixtures("_smi")
def test_a_run_is_planned_for_the_device_its_engine_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU that PyTorch cannot use is not planned for, whatever nvidia-smi says."""
    pytest.importorskip("torch")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    seen = list[tuple[str, str]]()

    def check(recipe: Recipe, limit: MemoryLimit, prompt: int) -> None:
        seen.append((recipe.engine.device, limit.name))
        raise RuntimeError("seen")

    monkeypatch.setattr("ictcli.train.launch.check_memory", check)
    recipe = recipe_of(engine={"backend": "torch"}, max_tokens=64)
    with Run.create(tmp_path / "run", recipe) as run, pytest.raises(RuntimeError, match="seen"):
        launch(run, recipe, Observer())
    ((device, limit),) = seen
    assert device in ("cpu", "mps") and limit != "the GPU's memory"

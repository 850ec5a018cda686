"""How much memory a run may take on this machine, without loading an engine."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import psutil

from ictcli.engine import choose_backend, on_apple_silicon
from ictcli.recipe.tables import EngineSettings

RAM_SHARE = 0.75
"""Share of a machine's memory: about what Metal recommends as its working set."""
CGROUP = "/sys/fs/cgroup"
NVIDIA_SMI_TIMEOUT = 5
"""Seconds."""


@dataclass(frozen=True)
class MemoryLimit:
    """Bytes a run may take, and what sets that limit; 0 where it is not known."""

    size: float
    name: str


def device_of(settings: EngineSettings) -> str:
    """cuda, mps, gpu (MLX's) or cpu: the device the engine takes, as far as can be told without
    loading it."""
    backend, device = choose_backend(settings.backend), settings.device.partition(":")[0]
    if backend == "mlx":
        cuda = any(list(distributions(name=f"mlx-cuda-{version}")) for version in (12, 13))
        found = on_apple_silicon() or (cuda and bool(_visible_gpus()))
        return "gpu" if device in ("gpu", "mps", "cuda") or (device == "auto" and found) else "cpu"
    if device != "auto":
        return device
    if on_apple_silicon():
        return "mps"
    return "cuda" if _visible_gpus() else "cpu"


def memory_limit(settings: EngineSettings, machine_gib: float = 0.0) -> MemoryLimit:
    """Return what a run may take here, or on a machine of `machine_gib`: at most
    engine.memory_limit."""
    limit = MemoryLimit((settings.memory_limit or 0) * 2**30, "engine.memory_limit")
    if limit.size and not machine_gib:
        return limit
    machine = _machine_limit(settings, machine_gib * 2**30)
    return limit if 0 < limit.size <= machine.size else machine


def _machine_limit(settings: EngineSettings, size: float) -> MemoryLimit:
    device = device_of(settings)
    if device == "cuda" or (device == "gpu" and not on_apple_silicon()):
        if size:
            return MemoryLimit(size, f"a GPU of {size / 2**30:g} GiB")
        sizes, number = _visible_gpus(), settings.device.partition(":")[2]
        index = int(number) if number.isdigit() else 0
        return MemoryLimit(sizes[index] if index < len(sizes) else 0.0, "the GPU's memory")
    if size:
        name = f"{RAM_SHARE:.0%} of a machine of {size / 2**30:g} GiB"
        return MemoryLimit(RAM_SHARE * size, name)
    if sys.platform == "linux":
        return MemoryLimit(_available(), "what this machine has free")
    name = f"{RAM_SHARE:.0%} of this machine's memory"
    return MemoryLimit(RAM_SHARE * psutil.virtual_memory().total, name)


def _available() -> float:
    """Bytes that can be had without swapping, on Linux: the machine's, or less in a container."""
    free = float(psutil.virtual_memory().available)
    limit, used = _text(f"{CGROUP}/memory.max").strip(), _text(f"{CGROUP}/memory.current").strip()
    if limit.isdigit() and used.isdigit():  # in a container
        cached = re.search(r"^inactive_file (\d+)", _text(f"{CGROUP}/memory.stat"), re.MULTILINE)
        taken = float(used) - (float(cached[1]) if cached else 0.0)
        free = min(free, max(float(limit) - taken, 0.0))
    return free


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def _visible_gpus() -> list[float]:
    """Bytes of each GPU that CUDA_VISIBLE_DEVICES names, in its order; 0 for a MIG instance, whose
    share of its GPU is not known.

    CUDA takes indices and beginnings of uuids, and ignores the list from the first unknown name on
    (CUDA C++ Programming Guide, "CUDA Environment Variables").
    """
    rows = [line.rpartition(",") for line in _nvidia_smi()]
    uuids = [uuid.strip() for uuid, _, _ in rows]
    sizes = [float(size) * 2**20 if size.strip().isdigit() else 0.0 for _, _, size in rows]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return sizes
    chosen: list[float] = []
    for name in map(str.strip, visible.split(",")):
        if name.startswith("MIG-"):
            gpu = name.removeprefix("MIG-").partition("/")[0]
            matches = [0.0] * bool(sizes and (gpu in uuids or not gpu.startswith("GPU-")))
        elif name.isdigit():
            matches = sizes[int(name) :][:1]
        else:
            pairs = zip(uuids, sizes, strict=True)
            matches = [size for uuid, size in pairs if name and uuid.startswith(name)]
        if len(matches) != 1:
            break
        chosen += matches
    return chosen


@cache
def _nvidia_smi() -> tuple[str, ...]:
    """`UUID, MIB` of every GPU, a line each; empty where nvidia-smi is not there or fails."""
    command = ["nvidia-smi", "--query-gpu=uuid,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=NVIDIA_SMI_TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(done.stdout.splitlines())

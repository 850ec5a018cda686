"""Finds how much memory a run may use on this machine, without loading an engine."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from ictcli.engine import choose_backend, on_apple_silicon
from ictcli.recipe.tables import EngineSettings

RAM_SHARE = 0.75
"""Share of a machine's memory that a run may use: about Metal's recommended working set."""
CGROUP = "/sys/fs/cgroup"
NVIDIA_SMI_TIMEOUT = 5
"""Seconds to wait for nvidia-smi."""


@dataclass(frozen=True)
class MemoryLimit:
    """The bytes that a run may use (0 = unknown), and the name of what limits them."""

    size: float
    name: str


def device_of(settings: EngineSettings) -> str:
    """Return the device that the engine will probably use: cuda, mps, gpu (of MLX) or cpu."""
    backend, device = choose_backend(settings.backend), settings.device.partition(":")[0]
    if backend == "mlx":
        is_gpu = on_apple_silicon() if device == "auto" else device in ("gpu", "mps", "cuda")
        return "gpu" if is_gpu else "cpu"
    if device != "auto":
        return device
    if on_apple_silicon():
        return "mps"
    return "cuda" if _visible_gpus() else "cpu"


def memory_limit(settings: EngineSettings, machine_gib: float = 0.0) -> MemoryLimit:
    """Return engine.memory_limit or, if less, the memory of this machine or of `machine_gib`."""
    device, size = device_of(settings), machine_gib * 2**30
    limit = MemoryLimit((settings.memory_limit or 0) * 2**30, "engine.memory_limit")
    if limit.size and not size:
        return limit
    if device == "cuda" or (device == "gpu" and not on_apple_silicon()):
        gpus, number = _visible_gpus(), settings.device.partition(":")[2]
        index = int(number) if number.isdigit() else 0
        free = gpus[index] if index < len(gpus) else 0.0
        name = f"a GPU of {machine_gib:g} GiB" if size else "the GPU's memory"
        machine = MemoryLimit(size or free, name)
    elif size:
        name = f"{100 * RAM_SHARE:.0f} % of a machine of {machine_gib:g} GiB"
        machine = MemoryLimit(RAM_SHARE * size, name)
    elif sys.platform == "linux":
        machine = MemoryLimit(_available(), "this machine's free memory")
    else:
        name = f"{100 * RAM_SHARE:.0f} % of this machine's memory"
        machine = MemoryLimit(RAM_SHARE * psutil.virtual_memory().total, name)
    return limit if 0 < limit.size <= machine.size else machine


def _available() -> float:
    """Return the bytes that are free, without swapping, on this Linux machine or container."""
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
    """Return the memory in bytes of each GPU in CUDA_VISIBLE_DEVICES, in that order. A GPU that is
    named there by its uuid has 0: its size is not looked up."""
    sizes, names = _nvidia_smi(), os.environ.get("CUDA_VISIBLE_DEVICES")
    if names is None or not sizes:
        return [*sizes]
    visible: list[float] = []
    for name in map(str.strip, names.split(",")):
        if not name or name == "-1" or (name.isdigit() and int(name) >= len(sizes)):
            break  # CUDA, too, ignores all GPUs after an invalid name
        visible.append(sizes[int(name)] if name.isdigit() else 0.0)
    return visible


@cache
def _nvidia_smi() -> tuple[float, ...]:
    """Return the memory in bytes of every GPU; empty if nvidia-smi is missing or fails."""
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.run(
            command, capture_output=True, text=True, timeout=NVIDIA_SMI_TIMEOUT, check=True
        ).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(float(line) * 2**20 if line.isdigit() else 0.0 for line in lines)

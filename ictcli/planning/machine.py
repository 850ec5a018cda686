"""How much memory this machine has for a run, without loading an engine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ictcli.engine import choose_backend, on_apple_silicon
from ictcli.recipe.settings import EngineSettings

RAM_SHARE = 0.75
"""Of a machine's memory: about what Metal recommends as its working set, and leaves a desktop."""
CGROUP = "/sys/fs/cgroup"
PATIENCE = 5
"""Seconds to wait for nvidia-smi."""


@dataclass(frozen=True)
class Room:
    """Bytes a run may take, and whose limit that is; 0 where the machine does not say."""

    size: float
    named: str


def device_of(settings: EngineSettings) -> str:
    """cuda, mps, gpu (MLX's) or cpu: what the engine will take, as far as can be said without
    it."""
    backend, given = choose_backend(settings.backend), settings.device.partition(":")[0]
    if backend == "mlx":
        on_gpu = given in ("gpu", "mps") or (given == "auto" and on_apple_silicon())
        return "gpu" if on_gpu else "cpu"
    if given != "auto":
        return given
    if on_apple_silicon():
        return "mps"
    return "cuda" if _visible() else "cpu"


def room(settings: EngineSettings, memory: float = 0.0) -> Room:
    """What a run may take here, or on a machine of `memory` GiB: at most engine.memory_limit."""
    limit = Room((settings.memory_limit or 0) * 2**30, "engine.memory_limit")
    if limit.size and not memory:
        return limit
    found = _machine(settings, memory)
    return limit if 0 < limit.size <= found.size else found


def _machine(settings: EngineSettings, memory: float) -> Room:
    device = device_of(settings)
    if memory and device == "cuda":
        return Room(memory * 2**30, f"a GPU of {memory:g} GiB")
    if memory:
        named = f"{RAM_SHARE:.0%} of a machine of {memory:g} GiB"
        return Room(RAM_SHARE * memory * 2**30, named)
    if device == "cuda":
        return Room(_of_gpu(settings.device), "the GPU's memory")
    if sys.platform == "linux":
        return Room(_available(), "what this machine has free")
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return Room(0.0, "")
    return Room(RAM_SHARE * total, f"{RAM_SHARE:.0%} of this machine's memory")


def _available() -> float:
    """Linux: what can be had without swapping, of this machine or of the container's share."""
    found = re.search(r"MemAvailable:\s*(\d+) kB", _text("/proc/meminfo"))
    free = int(found[1]) * 1024.0 if found else 0.0
    most, used = _text(f"{CGROUP}/memory.max").strip(), _text(f"{CGROUP}/memory.current").strip()
    if most.isdigit() and used.isdigit():  # a container's
        cached = re.search(r"^inactive_file (\d+)", _text(f"{CGROUP}/memory.stat"), re.MULTILINE)
        taken = float(used) - (float(cached[1]) if cached else 0.0)
        free = min(free or float(most), max(float(most) - taken, 0.0))
    return free


def _of_gpu(device: str) -> float:
    """Bytes of `cuda` or `cuda:1`, counted among those that CUDA may see; 0 of a MIG instance."""
    sizes, number = _visible(), device.partition(":")[2]
    index = int(number) if number.isdigit() else 0
    return sizes[index] if index < len(sizes) else 0.0


def _visible() -> list[float]:
    """Bytes of each GPU that CUDA_VISIBLE_DEVICES leaves, in its order, 0 where nvidia-smi does not
    say: CUDA takes numbers and beginnings of uuids, and none from the first it does not know.
    (CUDA C++ Programming Guide, "CUDA Environment Variables".)"""
    rows = [line.rpartition(",") for line in _nvidia("uuid,memory.total")]
    uuids = [uuid.strip() for uuid, _, _ in rows]
    sizes = [float(size) * 2**20 if size.strip().isdigit() else 0.0 for _, _, size in rows]
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return sizes
    found: list[float] = []
    for name in map(str.strip, named.split(",")):
        if name.startswith("MIG-"):  # an instance: a part of a GPU, which part is not said
            whole = name.removeprefix("MIG-").partition("/")[0]
            if not sizes or (whole.startswith("GPU-") and whole not in uuids):
                break
            found.append(0.0)
            continue
        if name.isdigit():
            index = int(name)
        else:
            like = [i for i, uuid in enumerate(uuids) if name and uuid.startswith(name)]
            index = like[0] if len(like) == 1 else -1
        if not 0 <= index < len(sizes):
            break
        found.append(sizes[index])
    return found


@cache
def _nvidia(fields: str) -> tuple[str, ...]:
    """A line of fields for every GPU, by nvidia-smi; none where there is none."""
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(ended.stdout.splitlines())


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""

"""The number format of a model's weights, and the CPU's kernels: one rule for engines and plans."""

import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

CPUINFO = Path("/proc/cpuinfo")
X86 = ("x86_64", "AMD64")
PACKING = ("avx2", "avx512")
"""Kernels that pack frozen weights once a run."""


@cache
def cpu_flags() -> frozenset[str]:
    """Return what Linux says that an x86 CPU can do; empty elsewhere."""
    if platform.machine() not in X86:
        return frozenset()
    try:
        lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


def choose_kernels(setting: str) -> str:
    """Return the kernels that `engine.kernels` means on this machine."""
    if setting != "auto":
        return setting
    if platform.machine() not in X86:
        return "plain"
    flags = cpu_flags()
    if "avx512f" in flags:
        return "avx512"
    return "avx2" if "avx2" in flags else "onednn"


FLOAT16_ERROR = 2.0**-25
"""What float16 may change of a weight: half its smallest number, less than a sum of float32
rounds. Those of bfloat16 are changed below 2^-17 alone."""
ROUNDED = 0.5
"""Root mean square that rounding may have, of what training changed of a matrix. Rounding has no
direction: at 0.57 an export of SmolLM2-135M keeps 99.9 % of what training changed, by KL."""
OVERFLOWING = frozenset(("gemma2", "gemma3", "gemma3_text", "glm4", "plamo2"))
"""Kinds of model whose activations float16 does not hold, with any weights (vLLM's list)."""


def in_float16(weight: Any, change: Any = None, *, half: Callable[[Any], Any]) -> bool:
    """Return whether float16 holds a weight of bfloat16 or float32, an array of torch or MLX that
    `half` rounds: to FLOAT16_ERROR or, where training added the `change`, to ROUNDED of that."""
    error = half(weight) - weight
    held = bool(abs(error).max() <= FLOAT16_ERROR)
    if held or change is None:
        return held
    return bool((error * error).sum() <= ROUNDED**2 * (change * change).sum())


def in_bfloat16(setting: str, *, gpu: bool) -> bool:
    """Return whether `engine.dtype` makes a model one of bfloat16; `auto` does on a GPU alone."""
    return gpu if setting == "auto" else setting == "bfloat16"

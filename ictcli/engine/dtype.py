"""The choice of weight dtype and CPU kernels, for the engines and for memory estimates."""

import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

CPUINFO = Path("/proc/cpuinfo")
X86 = ("x86_64", "AMD64")
PACKING = ("avx2", "avx512")
"""Kernels that convert frozen weights to FBGEMM's layout once per run."""


@cache
def cpu_flags() -> frozenset[str]:
    """Return the feature flags of an x86 CPU on Linux; empty on other machines."""
    if platform.machine() not in X86:
        return frozenset()
    try:
        lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


def choose_kernels(setting: str) -> str:
    """Return the CPU kernels to use on this machine for a value of `engine.kernels`."""
    if setting != "auto":
        return setting
    if platform.machine() not in X86:
        return "plain"
    flags = cpu_flags()
    if "avx512f" in flags:
        return "avx512"
    return "avx2" if "avx2" in flags else "onednn"


FLOAT16_ERROR = 2.0**-25
"""Largest rounding error of a weight that counts as exact: half of float16's smallest number.
Weights in bfloat16 are rounded only if they are below 2^-17."""
ROUNDED = 0.5
"""Largest RMS rounding error of a trained matrix, as a share of the RMS of its change in training.
At 0.57, a float16 export of SmolLM2-135M keeps 99.9 % of the change, measured by KL."""
OVERFLOWING = frozenset(("gemma2", "gemma3", "gemma3_text", "glm4", "plamo2"))
"""Model types whose activations overflow in float16 (vLLM's list)."""


def in_float16(weight: Any, change: Any = None, *, half: Callable[[Any], Any]) -> bool:
    """Return whether a bfloat16 or float32 weight, an array of torch or MLX, can be stored in
    float16. Its rounding error by `half` must be at most FLOAT16_ERROR. If `change` is what
    training added to the weight, an error of ROUNDED times `change` is allowed too."""
    error = half(weight) - weight
    exact = bool(abs(error).max() <= FLOAT16_ERROR)
    if exact or change is None:
        return exact
    return bool((error * error).sum() <= ROUNDED**2 * (change * change).sum())


def in_bfloat16(setting: str, *, gpu: bool) -> bool:
    """Return whether this `engine.dtype` means bfloat16; `auto` means bfloat16 on GPUs."""
    return gpu if setting == "auto" else setting == "bfloat16"

"""The number format of a model's weights: one rule for engines and plans."""

import platform
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
NATIVE = {"avx512_bf16", "amx_bf16"}
X86 = ("x86_64", "AMD64")


@cache
def multiplies_bfloat16() -> bool:
    """Whether the CPU multiplies matrices of bfloat16 natively: an x86 that Linux says has
    AVX512-BF16 or AMX. A rule and no measurement: a run resumes with the arithmetic it began with.
    """
    if platform.machine() not in X86:
        return False
    try:
        lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "")
    return bool(NATIVE & set(flags.split()))


def in_bfloat16(setting: str, stored: str, *, gpu: bool, trains_weights: bool) -> bool:
    """Whether `engine.dtype` makes a model of the type `stored` one of bfloat16. `auto` does on a
    GPU, and on a CPU that multiplies it where the model is stored so and its weights do not change:
    a step of all weights is below what 16 bits resolve."""
    if setting != "auto":
        return setting == "bfloat16"
    return gpu or (stored == "bfloat16" and not trains_weights and multiplies_bfloat16())

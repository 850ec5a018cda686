"""Memory of this process, and what says that there is none."""

import contextlib
import re
import sys
from pathlib import Path

FULL = (
    ("DefaultCPUAllocator",),
    ("Cannot allocate memory",),
    ("MPS backend out of memory",),
    ("Invalid buffer size",),  # MPS, of one array larger than Metal allows
    ("CUDA out of memory",),
    ("CUDA error: out of memory",),  # what CUDA itself, or another library, asked for
    ("CUBLAS_STATUS_ALLOC_FAILED",),
    ("CUBLAS_STATUS_NOT_INITIALIZED", "cublasCreate"),  # its workspace found no room
)
"""Texts of which PyTorch's errors hold all of one line where memory is what they want."""


def says_full(text: str) -> bool:
    """Whether an error of PyTorch's with this text was raised for want of memory."""
    return any(all(part in text for part in parts) for parts in FULL)


def is_full(error: Exception) -> bool:
    """Whether an error was raised for want of memory, by any engine."""
    text = str(error)
    words = ("memory", "allocate", "resource limit")  # torch's and MLX's
    told = any(word in text.lower() for word in words) or says_full(text)
    return isinstance(error, MemoryError) or told


def forget_peak() -> None:
    """Have `peak_rss` begin anew, on Linux; elsewhere nothing can."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")


def peak_rss() -> int:
    """The largest resident set so far, in bytes.

    On Linux from /proc, whose mark begins anew with a program; getrusage's is inherited from the
    process that started it.
    """
    status = Path("/proc/self/status")
    if status.exists() and (match := re.search(r"VmHWM:\s*(\d+) kB", status.read_text())):
        return int(match[1]) * 1024
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

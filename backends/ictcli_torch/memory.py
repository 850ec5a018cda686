"""Memory of the device: what is freed goes back to the system, and what says that there is none."""

import contextlib
import ctypes
import gc
import sys

import torch

from ictcli.engine.memory import forget_peak, peak_rss, says_full

M_MMAP_THRESHOLD, BLOCK = -3, 1 << 20
"""glibc's name for the size from which a block is the system's own; that of a large model."""


class Memory:
    """The memory of one device. What was used before counts for nothing."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        gc.collect()  # an engine before this one: its parts hold each other
        self.free()
        if device.type == "cuda":
            if torch.cuda.is_initialized():
                torch.cuda.reset_peak_memory_stats(device)
        else:
            forget_peak()

    def return_blocks(self) -> None:
        """On a CPU, have blocks of 1 MiB and more go back to the system when they are freed. Left
        to itself glibc comes to keep those below 32 MiB in a heap, and a pass that recomputes
        leaves holes there of half its memory. A step takes a fifth longer for it: only for those
        who asked for memory before time."""
        if self.device.type == "cpu" and sys.platform == "linux":
            with contextlib.suppress(AttributeError, OSError):
                ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, BLOCK)

    def end_phase(self) -> None:
        """After sampling or an update. On a CPU, give what it freed back to the system: glibc keeps
        blocks of less than 32 MiB for later, and the next phase wants other sizes, so that a
        process would come to hold what both take."""
        if self.device.type == "cpu":
            self.free()

    def free(self) -> None:
        """Give freed memory back to the system."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        elif self.device.type == "mps":
            torch.mps.empty_cache()
        elif sys.platform == "linux":
            with contextlib.suppress(AttributeError, OSError):  # musl has none
                ctypes.CDLL(None).malloc_trim(0)

    def peak(self) -> int:
        """Highest use in bytes since this was made: of a CUDA GPU its own, else of the process,
        which but on Linux is counted from its start."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        return peak_rss()


def ran_out(error: Exception) -> bool:
    """Whether PyTorch, or what it runs on, raised this for want of memory."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and says_full(str(error))

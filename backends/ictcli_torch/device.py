"""Choice and checks of the PyTorch device, and its memory."""

import contextlib
import ctypes
import gc
import sys
from importlib.util import find_spec

import torch

from ictcli.engine.budget import forget_peak, is_full, peak_rss
from ictcli.engine.dtype import choose_kernels
from ictcli.errors import EngineMissingError, UserError, install, reason_of
from ictcli.recipe.tables import EngineSettings, OptimizerSettings


def choose_device(name: str) -> torch.device:
    """Return the device; `auto` is CUDA, else MPS, else CPU. EngineMissingError if it is absent."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type not in ("cuda", "mps", "cpu"):
            raise RuntimeError("it is neither cuda, mps nor cpu")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise EngineMissingError(
            f"The device {name!r} cannot be used: {reason_of(error)}.",
            "engine.device=auto picks an available device",
        ) from error
    return device


def found() -> str:
    """Return a description of the device that `auto` chooses, after a test computation on it."""
    device = choose_device("auto")
    torch.ones(2, device=device).sum().item()
    if device.type == "cuda":
        about = torch.cuda.get_device_properties(device)
        return f"cuda, {about.name}, {about.total_memory / 2**30:.0f} GiB"
    return f"cpu, {choose_kernels('auto')} kernels" if device.type == "cpu" else device.type


def check_device(
    device: torch.device,
    settings: EngineSettings,
    optimizer: OptimizerSettings | None,
    *,
    adapted: bool,
) -> None:
    """Raise UserError or EngineMissingError if the device does not support the settings, before a
    model is loaded. `adapted`: adapters are trained, not the model's own weights."""
    if settings.load_in_4bit:
        if optimizer is not None and not adapted:
            raise UserError(
                "engine.load_in_4bit=true rounds the weights to 4 bits, which cannot be trained.",
                "adapter.kind=lora trains low-rank adapters instead",
            )
        if device.type != "cuda":
            raise EngineMissingError(
                f"engine.load_in_4bit=true needs a CUDA GPU, and the device is {device.type}.",
                "engine.load_in_4bit=false",
            )
        if find_spec("bitsandbytes") is None:
            raise EngineMissingError(
                "engine.load_in_4bit=true needs bitsandbytes, which is not installed.",
                f"{install('cuda')}, or engine.load_in_4bit=false",
            )


def limit_memory(device: torch.device, gib: float) -> None:
    """Limit PyTorch's allocator to `gib` GiB of a GPU; 0 removes an earlier engine's limit."""
    if device.type != "cuda":
        if not gib:
            return
        raise UserError(
            f"engine.memory_limit works with CUDA and MLX only; the device is {device.type}.",
            "leave it out, or use --backend mlx",
        )
    index = torch.cuda.current_device() if device.index is None else device.index
    total = torch.cuda.get_device_properties(index).total_memory
    share = min(gib * 2**30 / total, 1.0) if gib else 1.0
    torch.cuda.set_per_process_memory_fraction(share, index)


M_MMAP_THRESHOLD, BLOCK = -3, 1 << 20
"""glibc's option for the size from which freed blocks go back to the system, and that size for
large models, in bytes."""


class Memory:
    """Measures a device's peak memory from now on, and returns freed memory to the system."""

    small = False
    """Whether the model has fewer than `plan.SMALL` parameters."""
    engines = 0
    """Number of engines that this process has built."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if Memory.engines:
            gc.collect()  # frees earlier engines, which have reference cycles
        Memory.engines += 1
        self.free()
        if device.type == "cuda":
            if torch.cuda.is_initialized():
                torch.cuda.reset_peak_memory_stats(device)
        else:
            forget_peak()

    def return_blocks(self) -> None:
        """On a CPU, return freed blocks of 1 MiB and more to the system. Otherwise glibc keeps
        blocks below 32 MiB in a heap, half of it holes if passes recompute activations. A step
        takes a fifth longer, so this is for settings that trade time for memory."""
        if self.device.type == "cpu" and sys.platform == "linux":
            with contextlib.suppress(AttributeError, OSError):
                ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, BLOCK)

    def end_phase(self) -> None:
        """On a CPU, return the memory of a finished sampling or update to the system. glibc keeps
        blocks below 32 MiB, but the next phase needs other sizes, so memory would grow to the sum
        of both phases. Skipped for small models: allocating again costs a tenth of their step."""
        if self.device.type == "cpu" and not self.small:
            self.free()

    def free(self) -> None:
        """Return freed memory to the system."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        elif self.device.type == "mps":
            torch.mps.empty_cache()
        elif sys.platform == "linux":
            with contextlib.suppress(AttributeError, OSError):  # musl lacks malloc_trim
                ctypes.CDLL(None).malloc_trim(0)

    def peak(self) -> int:
        """Return the peak use in bytes of a CUDA GPU, else of the process, since this was created.
        Outside Linux it is the process's peak since its start."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        return peak_rss()


def ran_out(error: Exception) -> bool:
    """Return whether PyTorch or its libraries raised this error because memory ran out, or while
    handling such an error, as may happen when a CUDA graph's capture ends."""
    if is_full(error):
        return True
    return isinstance(error.__context__, Exception) and ran_out(error.__context__)

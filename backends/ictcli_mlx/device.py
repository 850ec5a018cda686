"""Choice of the MLX device; its memory limit and peak use."""

import os

import mlx.core as mx

from ictcli.engine.budget import OverLimitError
from ictcli.errors import EngineMissingError

CACHE_SHARE = 8
"""MLX may keep freed buffers of up to 1 / CACHE_SHARE of the memory limit."""
UNLIMITED_CACHE = 2 << 30
os.environ.setdefault("MLX_ENABLE_TF32", "0")  # or CUDA GPUs and the M5 round float32 products
DEFAULT_LIMIT = mx.get_memory_limit()


class Memory:
    """Memory limit and peak use of one device. `limit_gib` 0 means the device's recommended
    maximum, or no limit if it recommends none (CUDA)."""

    def __init__(self, limit_gib: float) -> None:
        from mlx_lm.utils import maybe_set_recommended_wired_limit  # imports transformers

        recommended = mx.device_info().get("max_recommended_working_set_size", 0)
        self.limit = int(limit_gib * 2**30) or int(recommended)
        self.forget_peak()  # MLX's own peak counts from the process's start
        mx.set_cache_limit(self.limit // CACHE_SHARE if self.limit else UNLIMITED_CACHE)
        mx.set_memory_limit(self.limit or DEFAULT_LIMIT)  # near this limit MLX waits for work
        maybe_set_recommended_wired_limit()  # otherwise macOS may page the weights out

    def watch(self, what: str, hint: str) -> None:
        """Raise OverLimitError, with `hint`, if the work `what` took more memory than the limit.
        Call after each mx.eval, so that the run ends before the machine runs out of memory."""
        took = mx.get_peak_memory()
        if self.limit and took > self.limit:
            self._reset()
            raise OverLimitError(
                f"{what} took {_size(took)} of memory, more than the limit of {_size(self.limit)}.",
                f"{hint}, or raise engine.memory_limit (for an existing run: in its recipe.toml, "
                "then ictcli resume RUN)",
            )

    def free(self) -> None:
        """Return freed buffers to the system, since updates and sampling need other sizes."""
        mx.clear_cache()
        self._reset()  # or the next `watch` would count this phase's peak

    end_phase = free

    def _reset(self) -> None:
        self._peak = self.peak()
        mx.reset_peak_memory()

    def peak(self) -> int:
        """Return the peak use in bytes since creation or the last `forget_peak`."""
        return max(self._peak, mx.get_peak_memory())

    def forget_peak(self) -> None:
        """Restart `peak` from the current use."""
        self._peak = 0
        mx.reset_peak_memory()


def _size(n: float) -> str:
    return f"{n / 2**30:.2f} GiB" if n >= 2**29 else f"{n / 2**20:.2f} MiB"


def choose_device(name: str) -> mx.Device:
    """Make the device MLX's default and return it. `auto` is the GPU (Metal or CUDA), else the CPU.
    Raise EngineMissingError if there is no such device."""
    names = {"auto": mx.cpu, "cpu": mx.cpu}
    if mx.is_available(mx.Device(mx.gpu)):
        names |= {"auto": mx.gpu, "gpu": mx.gpu}
        names["cuda" if mx.cuda.is_available() else "mps"] = mx.gpu
    if name not in names:
        is_gpu = name in ("gpu", "cuda", "mps")
        reason = "MLX finds no such device here" if is_gpu else "MLX knows only cpu and gpu"
        raise EngineMissingError(
            f"The device {name!r} cannot be used: {reason}.", "set engine.device=auto"
        )
    device = mx.Device(names[name])
    mx.set_default_device(device)
    return device


def found() -> str:
    """Return the device that `auto` chooses, after a test computation on it."""
    choose_device("auto")
    mx.ones(2).sum().item()
    return "gpu" if mx.default_device() == mx.Device(mx.gpu) else "cpu"

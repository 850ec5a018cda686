"""The device, and its memory: watched at every boundary of evaluation and limited."""

import os

import mlx.core as mx

from ictcli.engine.budget import OverLimitError
from ictcli.errors import EngineMissingError

CACHE_SHARE = 8
"""One part in so many of the limit may be kept as freed buffers."""
UNLIMITED_CACHE = 2 << 30
os.environ.setdefault("MLX_ENABLE_TF32", "0")  # or a CUDA GPU and an M5 round float32's products
DEFAULT_LIMIT = mx.get_memory_limit()


class Memory:
    """The memory of one device. `limit_gib` 0: what the device recommends, where it says; CUDA
    does not."""

    def __init__(self, limit_gib: float) -> None:
        from mlx_lm.utils import maybe_set_recommended_wired_limit  # takes transformers along

        recommended = mx.device_info().get("max_recommended_working_set_size", 0)
        self.limit = int(limit_gib * 2**30) or int(recommended)
        self.forget_peak()  # MLX counts from the start of the process
        mx.set_cache_limit(self.limit // CACHE_SHARE if self.limit else UNLIMITED_CACHE)
        mx.set_memory_limit(self.limit or DEFAULT_LIMIT)  # near it MLX finishes before it begins
        maybe_set_recommended_wired_limit()  # or the weights may be paged out

    def watch(self, what: str, hint: str) -> None:
        """Call at a boundary of evaluation. Raises OverLimitError over the limit, while the machine
        still has the rest to live on."""
        took = mx.get_peak_memory()
        if self.limit and took > self.limit:
            self._reset()
            raise OverLimitError(
                f"{what} took {_size(took)} of memory, over the limit of {_size(self.limit)}.",
                f"{hint}, or raise engine.memory_limit (a run that had begun: in its recipe.toml, "
                "then ictcli resume RUN)",
            )

    def free(self) -> None:
        """Give freed buffers back to the system: the next phase needs others."""
        mx.clear_cache()
        self._reset()  # or this phase would be blamed for the next one's

    end_phase = free

    def _reset(self) -> None:
        self._peak = self.peak()
        mx.reset_peak_memory()

    def peak(self) -> int:
        """Return the highest use in bytes since this was made."""
        return max(self._peak, mx.get_peak_memory())

    def forget_peak(self) -> None:
        """Have `peak` begin anew."""
        self._peak = 0
        mx.reset_peak_memory()


def _size(n: float) -> str:
    return f"{n / 2**30:.2f} GiB" if n >= 2**29 else f"{n / 2**20:.2f} MiB"


def choose_device(name: str) -> mx.Device:
    """Make the device MLX's default. `auto`: the GPU (Metal or CUDA), else the CPU."""
    names = {"auto": mx.cpu, "cpu": mx.cpu}
    if mx.is_available(mx.Device(mx.gpu)):
        names |= {"auto": mx.gpu, "gpu": mx.gpu}
        names["cuda" if mx.cuda.is_available() else "mps"] = mx.gpu
    if name not in names:
        known = name in ("gpu", "cuda", "mps")
        reason = "MLX finds none here" if known else "MLX has cpu and gpu"
        raise EngineMissingError(
            f"The device {name!r} cannot be used: {reason}.", "engine.device=auto picks one"
        )
    device = mx.Device(names[name])
    mx.set_default_device(device)
    return device


def found() -> str:
    """Return the device of `auto`, once it has computed something."""
    choose_device("auto")
    mx.ones(2).sum().item()
    return "gpu" if mx.default_device() == mx.Device(mx.gpu) else "cpu"

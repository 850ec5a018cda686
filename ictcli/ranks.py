"""Whether this process is one of several: all that is known of launchers and their variables.

Read before any command, so it imports neither numpy nor an engine.
"""

import os
from dataclasses import dataclass

from ictcli.errors import UserError


@dataclass(frozen=True)
class Launch:
    """The launch that this process belongs to."""

    size: int
    """Number of processes."""
    local: int
    """The number of this process on its machine, and of its GPU."""


def find_launch() -> Launch | None:
    """The launch of several processes that this one belongs to; None where it is the only one.

    Raises UserError for a launch that ictcli does not carry.
    """
    if "MLX_RANK" in os.environ:
        raise UserError(
            "The MLX engine runs in one process, and mlx.launch starts several.",
            "torchrun starts several processes of the torch engine",
        )
    if "MASTER_ADDR" not in os.environ:
        return None
    spreads = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
    if any(os.environ.get(name, "").lower() == "true" for name in spreads):
        raise UserError(
            "ictcli spreads weights by PyTorch, not by accelerate's FSDP or DeepSpeed.",
            "engine.shard=true spreads them, under torchrun or accelerate launch --multi_gpu",
        )
    numbered = {"RANK", "WORLD_SIZE"} & os.environ.keys()
    if "ACCELERATE_MIXED_PRECISION" in os.environ and not numbered:
        raise UserError(
            "accelerate launch was told of several processes, which it starts on GPUs alone.",
            "torchrun --nproc-per-node N -m ictcli -- COMMAND, on a CPU too",
        )
    size = _number("WORLD_SIZE")
    if size < 2 or "RANK" not in os.environ:
        return None
    return Launch(size, _number("LOCAL_RANK"))


def is_restarted() -> bool:
    """Whether torchrun started the processes of this launch again, after it had lost one."""
    return _number("TORCHELASTIC_RESTART_COUNT") > 0


def processes_here() -> int:
    """Of the launch on this machine; 1 where nothing says so."""
    return _number("LOCAL_WORLD_SIZE") or 1


def _number(name: str) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else 0

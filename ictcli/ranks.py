"""Finding out from a launcher's environment variables whether this process is one of several.

Every command imports this module, so it imports neither numpy nor an engine."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Launch:
    """The launch that this process belongs to."""

    size: int
    """Number of processes."""
    local: int
    """Index of this process, and of its GPU, on its machine."""


def find_launch() -> Launch | None:
    """Return the launch of several processes that this one belongs to; None if there is none."""
    if "MASTER_ADDR" not in os.environ:
        return None
    size = _number("WORLD_SIZE")
    if size < 2 or "RANK" not in os.environ:
        return None
    return Launch(size, _number("LOCAL_RANK"))


def is_restarted() -> bool:
    """Return whether torchrun restarted the processes of this launch after one had died."""
    return _number("TORCHELASTIC_RESTART_COUNT") > 0


def processes_here() -> int:
    """Return how many processes of the launch run on this machine; 1 if unknown."""
    return _number("LOCAL_WORLD_SIZE") or 1


def _number(name: str) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else 0

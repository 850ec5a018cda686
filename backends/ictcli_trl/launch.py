"""Processes that `accelerate launch` or torchrun starts: rank 0 runs the command, the others work
for its engine.

Entry point `ictcli.launchers`; read before any command, so it imports neither torch nor numpy.
"""

import os
from collections.abc import Callable
from typing import TypeVar

from ictcli.errors import EngineMissingError, install

T = TypeVar("T")

ENGINE, PROGRAM = "trl", "accelerate launch or torchrun"


def launched() -> bool:
    """Whether this process is one of several that torch's launchers started."""
    size = os.environ.get("WORLD_SIZE", "1")
    several = size.isdecimal() and int(size) > 1
    return several and {"RANK", "MASTER_ADDR"} <= os.environ.keys() and "MLX_RANK" not in os.environ


def processes() -> int:
    """How many processes were started together."""
    return int(os.environ["WORLD_SIZE"]) if launched() else 1


def shards() -> int:
    """Over how many processes accelerate was told to spread the weights: FSDP2's."""
    return processes() if os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true" else 1


def run(command: Callable[[], T]) -> T | None:
    """What `command` gives on rank 0; the others end when it does."""
    from ictcli.engine import is_installed

    if not is_installed(ENGINE):
        raise EngineMissingError(
            f"{PROGRAM} starts several ranks, which need the TRL engine.", install(ENGINE)
        )
    from ictcli.engine import distributed

    from .communicator import communicator
    from .engine import make

    ranks = communicator()
    try:
        if ranks.rank > 0:  # all meet before anything takes its time
            return distributed.work(ranks, make)
        try:
            return command()
        finally:
            distributed.shut_down(ranks)
    finally:
        ranks.close()

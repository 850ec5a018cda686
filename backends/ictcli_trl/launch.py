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


def run(command: Callable[[], T]) -> T | None:
    """What `command` gives on rank 0; the others end when it does."""
    from ictcli.engine import is_installed

    if not is_installed(ENGINE):
        raise EngineMissingError(
            f"{PROGRAM} starts several processes, which need the TRL engine.", install(ENGINE)
        )
    from ictcli.engine import distributed

    from .communicator import communicator
    from .engine import make

    processes = communicator()
    if processes.rank > 0:  # all meet before anything takes its time
        return distributed.work(processes, make)
    try:
        return command()
    finally:
        distributed.shut_down(processes)
        processes.close()

"""Processes that mlx.launch starts: rank 0 runs the command, the others work for its engine.

Entry point `ictcli.launchers`; read before any command, so it imports neither mlx nor numpy.
"""

import os
from collections.abc import Callable
from typing import TypeVar

from ictcli.errors import UserError, install

T = TypeVar("T")

ENGINE, PROGRAM = "mlx", "mlx.launch"


def launched() -> bool:
    """Whether mlx.launch started this process, as one of several."""
    return "MLX_RANK" in os.environ


def run(command: Callable[[], T]) -> T | None:
    """What `command` gives on rank 0; the others end when it does."""
    from ictcli.engine import is_installed

    if not is_installed(ENGINE):
        raise UserError(f"{PROGRAM} needs the MLX engine.", install("mlx"))
    from . import distributed

    if distributed.communicator().rank > 0:  # all meet before anything takes its time
        return distributed.work()
    try:
        return command()
    finally:
        distributed.shut_down()

"""Processes that `accelerate launch` or torchrun starts: rank 0 runs the command, the others work
for its engine.

Entry point `ictcli.launchers`; read before any command, so it imports neither torch nor numpy.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar

from ictcli.errors import EngineMissingError, UserError, install

T = TypeVar("T")

ENGINE, PROGRAM = "trl", "accelerate launch or torchrun"


def launched() -> bool:
    """Whether this process is one of several that torch's launchers started, or should have."""
    size = os.environ.get("WORLD_SIZE", "1")
    several = size.isdecimal() and int(size) > 1 and "RANK" in os.environ
    address = "MASTER_ADDR" in os.environ and "MLX_RANK" not in os.environ
    return address and (several or unranked())


def unranked() -> bool:
    """Whether accelerate launch was told of several processes and gives them no ranks: it starts
    one of them, or leaves them to mpirun, on a CPU or with one GPU."""
    unnumbered = not {"RANK", "WORLD_SIZE"} & os.environ.keys()
    return unnumbered and {"ACCELERATE_MIXED_PRECISION", "MASTER_ADDR"} <= os.environ.keys()


def processes() -> int:
    """How many processes were started together."""
    return int(os.environ.get("WORLD_SIZE", "1")) if launched() else 1


def shards() -> int:
    """Over how many processes accelerate was told to spread the weights: FSDP2's."""
    return processes() if os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true" else 1


def configuration(accelerator: Any) -> dict[str, Any]:
    """What accelerate was told, for environment.json."""
    machines = processes() // max(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1)
    plugin = getattr(accelerator.state, "fsdp_plugin", None)
    names = ("fsdp_version", "reshard_after_forward", "cpu_ram_efficient_loading")
    fsdp = {name: getattr(plugin, name) for name in names} if plugin else {}
    return {
        "distributed_type": str(accelerator.distributed_type.value),
        "mixed_precision": str(accelerator.mixed_precision),
        "num_processes": processes(),
        "num_machines": max(machines, 1),
        **fsdp,
    }


def check() -> None:
    """UserError for a launch that ictcli does not carry."""
    if os.environ.get("ACCELERATE_USE_DEEPSPEED", "").lower() == "true":
        raise UserError(
            "ictcli does not run on DeepSpeed.", "accelerate launch --use_fsdp --fsdp_version 2"
        )
    if shards() > 1 and os.environ.get("FSDP_VERSION", "1") != "2":
        raise UserError("ictcli shards by FSDP2 alone.", "accelerate launch --fsdp_version 2")


def run(command: Callable[[], T]) -> T | None:
    """What `command` gives on rank 0; the others end when it does."""
    from ictcli.engine import is_installed

    if unranked():
        raise UserError(
            "accelerate launch was told of several processes, which it starts on GPUs alone.",
            "torchrun --nproc-per-node N -m ictcli -- COMMAND, on a CPU too",
        )
    if not is_installed(ENGINE):
        raise EngineMissingError(
            f"{PROGRAM} starts several ranks, which need the TRL engine.", install(ENGINE)
        )
    check()
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

"""Several processes of the torch engine (`ictcli.engine.distributed`), each with all weights,
connected by torch.distributed and started by `torchrun`."""

import contextlib
import os
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store, _set_pg_timeout
from torch.distributed.rendezvous import rendezvous

from ictcli.engine.messages import packed, unpacked
from ictcli.errors import EngineMissingError, LostError, RunFailedError
from ictcli.ranks import find_launch
from ictcli.recipe.tables import EngineSettings, NewAdapters, OptimizerSettings

from .engine import TorchEngine

T = TypeVar("T")

MEETING = timedelta(minutes=10)
"""How long ranks wait for each other at the start."""
PATIENCE = timedelta(hours=2)
"""How long ranks wait for rank 0, which verifies responses meanwhile."""
ALIKE = 10.0
"""Seconds within which failures of all ranks count as one common failure."""
LEAVE = 0.2
"""Seconds within which torch's threads free the messages that they sent."""
LOST = ("gloo", "nccl", "connection", "peer", "process group")
"""Words in torch's error messages if another process is gone."""


def meet(backend: str) -> Store:
    """Join the process group; return the key-value store that its processes share. Keys start with
    the number of the attempt: after a restart, torchrun's store still has addresses of dead
    processes, to which torch 2.13 would connect."""
    store, rank, size = next(rendezvous("env://", timeout=MEETING))
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    notes = PrefixStore(f"attempt-{attempt}-of-{size}", store)
    dist.init_process_group(backend, store=notes, rank=rank, world_size=size, timeout=MEETING)
    _set_pg_timeout(PATIENCE, dist.group.WORLD)
    return notes


class Communicator:
    """This process's connection to the others. Messages go through the CPU, gradients directly."""

    broken = False
    """Whether this rank has lost the others and must not communicate any more."""
    leave: Callable[[], None] = staticmethod(dist.destroy_process_group)
    """Leaves the process group, and the groups that vLLM has made."""

    def __init__(self) -> None:
        launch = find_launch()
        cuda = torch.cuda.is_available()
        if launch and cuda and launch.local < torch.cuda.device_count():
            torch.cuda.set_device(launch.local)
        try:
            self.store = meet("cpu:gloo,cuda:nccl" if cuda else "gloo")
        except RuntimeError as error:
            raise RunFailedError(
                f"The processes of the launch cannot connect to each other: {_reason(error)}.",
                "start them with torchrun --nproc-per-node N -m ictcli -- COMMAND",
            ) from error
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    @contextlib.contextmanager
    def together(self) -> Generator[None]:
        """Run the program of all ranks inside the context. If it fails on this rank alone, set
        `broken`: the others wait for a message from it. If all fail, rank 0 reports the error."""
        try:
            with self._connected():
                yield
        except BaseException as error:
            alike = not self.broken and isinstance(error, Exception) and self._all_fail()
            self.broken = not alike
            raise

    def _all_fail(self) -> bool:
        """Return whether every rank fails within `ALIKE` seconds."""
        with contextlib.suppress(RuntimeError):  # the store may be gone with its process
            failed, patience = self.store.add("failed", 1), time.monotonic() + ALIKE
            while failed < self.size and time.monotonic() < patience:
                time.sleep(0.01)
                failed = self.store.add("failed", 0)
            return failed == self.size
        return False

    @contextlib.contextmanager
    def _connected(self) -> Generator[None]:
        """Raise LostError if another process is gone."""
        if self.broken:
            raise LostError("This process has lost the other processes.", "start the launch again")
        try:
            yield
        except RuntimeError as error:
            if not any(word in str(error).lower() for word in LOST):
                raise
            self.broken = True
            raise LostError(
                f"Another process of the launch is gone: {_reason(error)}.",
                "read that process's error; start ictcli resume RUN in the same way to continue",
            ) from error

    def share(self, work: Callable[[], T]) -> T:
        """Run `work` on rank 0 only; return its result on every rank."""
        return self.broadcast(work() if self.rank == 0 else None)

    def broadcast(self, message: Any = None) -> Any:
        """Return rank 0's message on every rank."""
        return self.gather(message if self.rank == 0 else None)[0]

    def gather(self, message: Any) -> list[Any]:
        """Return the messages of all ranks, by rank, on every rank."""
        blob = torch.frombuffer(bytearray(packed(message)), dtype=torch.uint8)
        sizes = [torch.tensor([0]) for _ in range(self.size)]
        with self._connected():
            dist.all_gather(sizes, torch.tensor([len(blob)]))
            longest = max(map(int, sizes))
            padded = torch.zeros(longest, dtype=torch.uint8)
            padded[: len(blob)] = blob
            rows = [torch.empty_like(padded) for _ in sizes]
            dist.all_gather(rows, padded)
        pairs = zip(rows, sizes, strict=True)
        return [unpacked(row[: int(size)].numpy().tobytes()) for row, size in pairs]

    def spread(self, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return rank 0's arrays on every rank, on the CPU."""
        like = {name: ([*x.shape], str(x.dtype).rpartition(".")[2]) for name, x in arrays.items()}
        received = dict[str, Tensor]()
        for name, (shape, dtype) in self.broadcast(like).items():
            tensor = torch.empty(shape, dtype=getattr(torch, dtype))
            if self.rank == 0:
                tensor.copy_(arrays[name])
            dist.broadcast(tensor.view(-1).view(torch.uint8), 0)  # gloo lacks some types
            received[name] = tensor
        return received

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over ranks, with the same bits on every rank."""
        parts = [tensor.contiguous() for tensor in tensors]
        works: list[Any] = [dist.all_reduce(part, async_op=True) for part in parts]
        for work in works:
            work.wait()
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part)

    def close(self) -> None:
        """Leave the process group, all ranks together: torch aborts if a rank leaves during
        another's call, or if Python exits while a thread of torch still holds a tensor."""
        if dist.is_initialized() and not self.broken:
            with contextlib.suppress(RuntimeError):
                dist.barrier()
            time.sleep(LEAVE)
            self.leave()


def _reason(error: RuntimeError) -> str:
    """Return the error's first sentence, without the place in torch's source that precedes it."""
    line = next(iter(str(error).splitlines()), "")
    return re.sub(r"^\[[^]]*\]\s*", "", line).split(". ")[0].rstrip(".")[:200]


def build(
    ranks: Communicator,
    model: str,
    settings: EngineSettings,
    optimizer: OptimizerSettings | None = None,
    adapters: NewAdapters | None = None,
) -> TorchEngine:
    """Return this rank's engine, on a GPU of its own, with exactly rank 0's weights and moments. An
    engine that does not train has all weights, also with `settings.shard`. All ranks must call this
    together. Raise EngineMissingError if there are too few GPUs."""
    device = settings.device.partition(":")[0]  # the communicator has chosen the GPU
    launch, gpus = find_launch(), torch.cuda.device_count()
    if launch and gpus and device in ("auto", "cuda") and launch.local >= gpus:
        raise EngineMissingError(
            f"This machine has {gpus} GPUs, fewer than the processes started on it.",
            f"use torchrun --nproc-per-node {gpus}, or engine.device=cpu",
        )
    settings, kind = settings.model_copy(update={"device": device}), TorchEngine
    if settings.shard and optimizer is not None:
        from .shard import ShardedEngine

        kind = ShardedEngine
    engine = kind(model, settings, optimizer, adapters)
    engine.ranks = ranks
    engine.check_same()
    if engine.optimizer is not None:
        engine.align()
    return engine


@cache
def communicator() -> Communicator:
    """Return this process's communicator, one for all engines it builds."""
    return Communicator()

"""Several processes of the torch engine (`ictcli.engine.distributed`), each with all weights, over
torch.distributed; `torchrun` starts them. Entry point `ictcli.ranks`."""

import contextlib
import os
import re
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import timedelta
from functools import cache

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, _set_pg_timeout
from torch.distributed.rendezvous import rendezvous

from ictcli.engine.communicator import Communicator, gone
from ictcli.engine.distributed import start
from ictcli.errors import EngineMissingError, RunFailedError
from ictcli.ranks import find_launch
from ictcli.recipe.tables import AdapterSettings, EngineSettings, OptimizerSettings

from .engine import TorchEngine

MEETING = timedelta(minutes=10)
"""How long ranks wait for each other at first."""
PATIENCE = timedelta(hours=2)
"""How long ranks wait for rank 0, which judges responses meanwhile."""
LEAVE = 5.0
"""Seconds that a process waits for torch's threads before it ends all the same."""
LOST = ("gloo", "nccl", "connection", "peer", "process group")
"""What torch's errors name where another process is gone."""
BUCKET = 1 << 24
"""Numbers that are summed by one message at most, unless they are one tensor."""


def meet(backend: str) -> None:
    """Join the process group. Of a launch that was started again, torchrun's store still has the
    addresses of processes that are gone, and torch 2.13 would look for those."""
    store, rank, size = next(rendezvous("env://", timeout=MEETING))
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    own = PrefixStore(f"attempt-{attempt}-of-{size}", store)
    dist.init_process_group(backend, store=own, rank=rank, world_size=size, timeout=MEETING)
    _set_pg_timeout(PATIENCE, dist.group.WORLD)


class TorchCommunicator(Communicator):
    """This process among those of a launch. Messages go through the CPU, tensors from where they
    are."""

    leave: Callable[[], None] = staticmethod(dist.destroy_process_group)
    """Undo `meet`, and what else has made groups of these processes."""

    def __init__(self) -> None:
        launch = find_launch()
        cuda = torch.cuda.is_available()
        if launch and cuda and launch.local < torch.cuda.device_count():
            torch.cuda.set_device(launch.local)
        try:
            meet("cpu:gloo,cuda:nccl" if cuda else "gloo")
        except RuntimeError as error:
            raise RunFailedError(
                f"The processes of the launch do not meet: {_reason(error)}.",
                "torchrun --nproc-per-node N -m ictcli -- COMMAND sets what they need",
            ) from error
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.sent = weakref.WeakSet[Tensor]()
        """What torch's threads still hold of messages."""

    @contextlib.contextmanager
    def together(self) -> Generator[None]:
        try:
            with super().together():
                yield
        except RuntimeError as error:
            if self.broken and any(word in str(error).lower() for word in LOST):
                raise gone(_reason(error)) from error
            raise

    def every(self, own: np.ndarray) -> list[np.ndarray]:
        tensor = self._tensor(own)
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor)
        return [part.numpy() for part in parts]

    def first(self, own: np.ndarray) -> np.ndarray:
        tensor = self._tensor(own)
        dist.broadcast(tensor, 0)
        return tensor.numpy()

    def _tensor(self, array: np.ndarray) -> Tensor:
        tensor = torch.tensor(array)
        self.sent.add(tensor)
        return tensor

    def array(self, own: Tensor | None, shape: Sequence[int], kind: str) -> Tensor:
        tensor = torch.empty(shape, dtype=getattr(torch, kind))
        if own is not None:
            tensor.copy_(own)
        dist.broadcast(tensor.view(-1).view(torch.uint8), 0)  # gloo does not know all types
        return tensor

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Put the sum over ranks in each tensor's place, the same bits on every rank."""
        for some in _buckets(tensors):
            flat = torch.cat([tensor.flatten() for tensor in some])
            dist.all_reduce(flat)
            self.count(flat.nbytes)
            parts = flat.split([tensor.numel() for tensor in some])
            for tensor, part in zip(some, parts, strict=True):
                tensor.copy_(part.view_as(tensor))

    def close(self) -> None:
        """Leave the process group, all at once: torch aborts where another left in the middle, and
        where Python ends before a thread of its own lets go of a tensor."""
        if dist.is_initialized() and not self.broken:
            with contextlib.suppress(RuntimeError):
                dist.barrier()
            patience = time.monotonic() + LEAVE
            while self.sent and time.monotonic() < patience:
                time.sleep(0.001)
            self.leave()


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    bucket, numbers = list[Tensor](), 0
    for tensor in tensors:
        if bucket and numbers + tensor.numel() > BUCKET:
            yield bucket
            bucket, numbers = [], 0
        bucket.append(tensor)
        numbers += tensor.numel()
    if bucket:
        yield bucket


def _reason(error: RuntimeError) -> str:
    """Its first sentence, without the place in torch's source that it begins with."""
    line = next(iter(str(error).splitlines()), "")
    return re.sub(r"^\[[^]]*\]\s*", "", line).split(". ")[0].rstrip(".")[:200]


def build(
    ranks: TorchCommunicator,
    model: str,
    settings: EngineSettings,
    optimizer: OptimizerSettings | None = None,
    adapters: AdapterSettings | None = None,
) -> TorchEngine:
    """An engine of this rank, on a GPU of its own. One that does not train has all weights,
    whatever `settings.shard` says."""
    device = settings.device.partition(":")[0]  # the communicator has chosen among its kind
    launch, gpus = find_launch(), torch.cuda.device_count()
    if launch and gpus and device in ("auto", "cuda") and launch.local >= gpus:
        raise EngineMissingError(
            f"Process {launch.local} of this machine finds {gpus} GPUs.",
            f"torchrun --nproc-per-node {gpus}, or engine.device=cpu",
        )
    settings, kind = settings.model_copy(update={"device": device}), TorchEngine
    if settings.shard and optimizer is not None:
        from .shard import ShardedEngine, ShardedWeights

        kind = ShardedEngine if adapters else ShardedWeights
    return start(kind, ranks, model, settings, optimizer, adapters)


@cache
def communicator() -> TorchCommunicator:
    """This process's, one for all the engines it builds."""
    return TorchCommunicator()

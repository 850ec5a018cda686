"""Several processes of the torch engine (`ictcli.engine.distributed`), each with all weights, over
torch.distributed; `torchrun` starts them. Entry point `ictcli.ranks`."""

import contextlib
import os
import pickle
import re
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, _set_pg_timeout
from torch.distributed.rendezvous import rendezvous

from ictcli.errors import EngineMissingError, LostError, RunFailedError
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
BYTES = torch.uint8
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


class Communicator:
    """This process among those of a launch. Messages go through the CPU, tensors from where they
    are."""

    broken = False
    """Whether this rank left the others in the middle of what all do at once."""
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
        """Around what all ranks do at once. If it fails on this one, no rank may be spoken to any
        more: the others wait for the part that will not come."""
        if self.broken:
            raise LostError("The launch has lost step.", "start the same launch again")
        try:
            yield
        except BaseException as error:
            self.broken = self.size > 1
            text = str(error).lower()
            if self.broken and isinstance(error, RuntimeError) and any(w in text for w in LOST):
                raise LostError(
                    f"Another process of the launch is gone: {_reason(error)}.",
                    "its own message says why; the same launch with ictcli resume RUN goes on",
                ) from error
            raise

    def broadcast(self, message: Any = None) -> Any:
        """Send rank 0's message to every rank; returns it."""
        with self.together():
            packed = self._packed(message if self.rank == 0 else None)
            size = self._kept(torch.tensor([len(packed)]))
            dist.broadcast(size, 0)
            body = packed if self.rank == 0 else self._kept(torch.empty(int(size), dtype=BYTES))
            dist.broadcast(body, 0)
        return _unpacked(body)

    def gather(self, message: Any) -> list[Any]:
        """Send every rank's message to every rank; returns them by rank."""
        with self.together():
            packed = self._packed(message)
            sizes = [self._kept(torch.tensor([0])) for _ in range(self.size)]
            dist.all_gather(sizes, self._kept(torch.tensor([len(packed)])))
            longest = max(map(int, sizes))
            bodies = [self._kept(torch.empty(longest, dtype=BYTES)) for _ in sizes]
            padded = self._kept(torch.zeros(longest, dtype=BYTES))
            padded[: len(packed)] = packed
            dist.all_gather(bodies, padded)
        return [_unpacked(body) for body in bodies]

    def _packed(self, message: Any) -> Tensor:
        return self._kept(torch.frombuffer(bytearray(pickle.dumps(message)), dtype=BYTES).clone())

    def _kept(self, tensor: Tensor) -> Tensor:
        self.sent.add(tensor)
        return tensor

    def spread(self, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Send rank 0's arrays to every rank, on the CPU."""
        like = {name: (x.shape, x.dtype) for name, x in arrays.items()}
        received = dict[str, Tensor]()
        for name, (shape, dtype) in self.broadcast(like).items():
            tensor = torch.empty(shape, dtype=dtype)
            if self.rank == 0:
                tensor.copy_(arrays[name])
            dist.broadcast(tensor.view(-1).view(torch.uint8), 0)  # gloo does not know all types
            received[name] = tensor
        return received

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Put the sum over ranks in each tensor's place, the same bits on every rank."""
        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            dist.all_reduce(flat)
            parts = flat.split([tensor.numel() for tensor in bucket])
            for tensor, part in zip(bucket, parts, strict=True):
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


def _unpacked(body: Tensor) -> Any:
    return pickle.loads(body.numpy().tobytes())


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
    ranks: Communicator,
    model: str,
    settings: EngineSettings,
    optimizer: OptimizerSettings | None = None,
    adapters: AdapterSettings | None = None,
) -> TorchEngine:
    """Build an engine of this rank, on a GPU of its own, with rank 0's weights and moments to the
    bit. One that does not train has all weights, whatever `settings.shard` says. All ranks have to
    be here."""
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
    with ranks.together():
        engine = kind(model, settings, optimizer, adapters)
        engine.ranks = ranks
        engine.check_same()
        if engine.optimizer is not None:
            engine.align()
    return engine


@cache
def communicator() -> Communicator:
    """This process's, one for all the engines it builds."""
    return Communicator()

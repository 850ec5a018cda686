"""Several processes of the torch engine with sharded weights, by PyTorch's `fully_shard`.

Each process holds a part of every weight, its gradient and its moments. A pass of an update gathers
one block's weights at a time. A second module (`skeleton`) samples and evaluates; only then does it
have all weights, in the model's dtype."""

import contextlib
import copy
from collections.abc import Callable, Generator, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from ictcli.engine.packing import MicroBatch
from ictcli.engine.update import Update, pass_over
from ictcli.errors import RunFailedError
from ictcli.recipe.tables import OptimizerSettings
from ictcli.types import BoolArray, FloatArray, Rollouts, UpdateReport

from .device import ran_out
from .engine import TorchEngine
from .model import blocks
from .optimizer import Optimizer


class ShardedEngine(TorchEngine):
    """The engine of one rank, with its part of each weight and of the moments."""

    parallelism = "sharded"
    at_hand = False
    """Whether `model`, which samples and evaluates, has all weights now."""
    restored: tuple[dict[str, Tensor], dict[str, Tensor]] | None = None
    """Weights and optimiser state that rank 0 has read, until `align` sends them to all ranks."""

    def make_optimizer(self, settings: OptimizerSettings) -> Optimizer:
        trained, dtype = self.model, self.model.dtype
        self.model = skeleton(trained, self.device)
        self.root = shard(trained, self.device, dtype)
        self.root.float()
        self.parts = dict(trained.named_parameters())
        """This process's part of each weight."""
        return Optimizer(trained, settings)

    @contextlib.contextmanager
    def gathered(self, *, reference: bool = False) -> Generator[None]:
        """Give `model` all weights inside the context, for sampling. All ranks must call this."""
        parts, weights = (
            self.reference if reference else self.parts,
            dict(self.model.named_parameters()),
        )
        try:
            for name, weight in weights.items():
                weight.data = whole(parts[name], weight.dtype)
            self.at_hand = True
            yield
        finally:
            self.at_hand = False
            for weight in weights.values():
                weight.data = weight.data.new_empty(0)

    def logits(self, rollouts: Rollouts, where: BoolArray) -> FloatArray:
        with contextlib.nullcontext() if self.at_hand else self.gathered():
            return super().logits(rollouts, where)

    @contextlib.contextmanager
    def merged(self, *, exactly: bool = False) -> Generator[None]:
        """Merge as `TorchEngine` does, with all weights. All ranks must call this together."""
        weights = contextlib.nullcontext() if self.at_hand else self.gathered()
        with weights, super().merged(exactly=exactly):
            yield

    def gradient(self, update: Update) -> UpdateReport:
        """Compute the gradient as other engines do, but raise RunFailedError if memory runs out.
        Ranks gather blocks together, so one rank alone cannot repeat a pass with fewer tokens."""
        try:
            share = pass_over(self, update)
        except Exception as error:
            if not ran_out(error):
                raise
            raise RunFailedError(
                f"Memory ran out in an update, in a pass of at most {self.budget.tokens:,} tokens.",
                "lower engine.micro_tokens in the run's recipe.toml, and resume",
            ) from error
        report = self.summed(self.ranks.gather(share))
        if report.evaluated:
            self.sum_gradient()
        return report

    def rounds(self, update: Update, own: Update) -> Iterator[tuple[MicroBatch, bool]]:
        """Yield this rank's passes, with True. If other ranks have more passes with (or without)
        shared prompts, also yield passes of theirs, with False: all ranks must run equally many."""
        packs = [
            [*self.micro_batches(x.rollouts, x.trained)]
            for x in (self.share_of(update, rank) for rank in range(self.ranks.size))
        ]
        for shares in (True, False):
            forms = [[b for b in pack if (b.shared is not None) == shares] for pack in packs]
            for batches in zip_longest(*forms):
                batch = batches[self.ranks.rank]
                yield batch or next(filter(None, batches)), batch is not None

    def kept_weights(self) -> dict[str, Tensor]:
        """Return copies of this rank's parts of the weights."""
        return {name: p.detach().clone() for name, p in self.parts.items()}

    @contextlib.contextmanager
    def swapped(self, weights: Any) -> Generator[None]:
        """Do nothing: `gathered` has already set these weights."""
        yield

    def sum_gradient(self) -> None:
        for master in self.optimizer.masters.values():
            if master.grad is not None:
                master.grad.mul_(self.ranks.size)  # FSDP computes the mean

    def trained_weights(self) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in self.parts.items()}

    def write(self, path: Path, arrays: dict[str, Tensor], **about: str) -> None:
        """Gather one array at a time and write all on rank 0."""
        held = dict[str, Tensor]()
        for name, tensor in arrays.items():
            value = whole(tensor)
            if self.ranks.rank == 0:
                held[name] = value.cpu().contiguous()
        super().write(path, held, **about)

    def take(self, weights: dict[str, Tensor], state: dict[str, Tensor]) -> None:
        self.restored = weights, state

    def align(self) -> None:
        """Send the weights and state that rank 0 has restored to all ranks. Do nothing if rank 0
        has restored nothing: all ranks have loaded the same files."""
        entries: list[str] | None = self.ranks.broadcast(self.restored and [*self.restored[1]])
        if entries is None:
            return
        (weights, state), self.restored = self.restored or ({}, {}), None
        self.optimizer.reset()  # frees the old moments first
        with torch.no_grad():
            for name, weight in self.parts.items():
                weight.copy_(scattered(weights.get(name), weight))
        step = torch.zeros((), device=self.device)
        like = {e: step if e.startswith("step/") else self.parts[e.split("/")[1]] for e in entries}
        self.optimizer.load(
            {entry: scattered(state.get(entry), tensor) for entry, tensor in like.items()},
            self.trained_weights(),
        )


class Root(nn.Module):
    """The module that FSDP treats as the whole model; its forward runs a pass of `passes`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, work: Callable[..., Tensor], *arguments: Any) -> Tensor:
        return work(self.model, *arguments)


def shard(model: Any, device: torch.device, dtype: torch.dtype) -> Root:
    """Return a module with the model in it, whose weights are spread over all processes."""
    how: dict[str, Any] = {"mesh": init_device_mesh(device.type, (dist.get_world_size(),))}
    if dtype != torch.float32:
        how["mp_policy"] = MixedPrecisionPolicy(
            param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False
        )
    root = Root(model)
    for module in (*blocks(model), root):
        fully_shard(module, **how)
    return root


def skeleton(module: Any, device: torch.device) -> Any:
    """Return a copy of a module with empty parameters; tied parameters stay tied."""

    def empty(p: nn.Parameter) -> nn.Parameter:
        return nn.Parameter(torch.empty(0, dtype=p.dtype, device=device), requires_grad=False)

    memo: dict[int, Any] = {id(p): empty(p) for p in module.parameters()}
    return copy.deepcopy(module, memo)


@torch.inference_mode(mode=False)
@torch.no_grad()
def whole(tensor: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return a tensor gathered from all processes, which must call this together."""
    part: Any = tensor.detach().to(dtype or tensor.dtype)
    return part.full_tensor() if isinstance(part, DTensor) else part


def scattered(value: Tensor | None, like: Tensor) -> Tensor:
    """Return rank 0's `value` with the type, device and sharding of `like`. All ranks must call
    this together, the others with None."""
    held = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    if value is not None:
        held.copy_(value)
    if isinstance(like, DTensor):
        return distribute_tensor(held, like.device_mesh, like.placements)
    dist.broadcast(held, 0)
    return held

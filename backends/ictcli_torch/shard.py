"""Several processes of the torch engine that spread the weights, by PyTorch's `fully_shard`.

Each process holds a part of every weight, its gradient and its moments. A pass of an update puts
one block together at a time. A second module (`skeleton`) samples and evaluates; while it does, it
has all weights, in the type of the computation."""

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
    """An engine of one rank, with its part of each weight and of its moments."""

    parallelism = "sharded"
    at_hand = False
    """Whether what samples and evaluates has all weights."""
    restored: tuple[dict[str, Tensor], dict[str, Tensor]] | None = None
    """The weights and the optimiser's state that rank 0 has read, until all `align`."""

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
        """Give the module that samples and evaluates all weights; all ranks have to be here."""
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
        """Merge with all weights. All ranks have to be here."""
        weights = contextlib.nullcontext() if self.at_hand else self.gathered()
        with weights, super().merged(exactly=exactly):
            yield

    def gradient(self, update: Update) -> UpdateReport:
        """Compute the gradient as in any launch, but end the run where memory runs out: all ranks
        do the same passes, since all put each block together at once."""
        try:
            share = pass_over(self, update)
        except Exception as error:
            if not ran_out(error):
                raise
            raise RunFailedError(
                f"Memory ran out in a pass of an update, of {self.budget.tokens:,} tokens at most.",
                "lower engine.micro_tokens in the run's recipe.toml, and resume",
            ) from error
        report = self.summed(self.ranks.gather(share))
        if report.evaluated:
            self.sum_gradient()
        return report

    def rounds(self, update: Update, own: Update) -> Iterator[tuple[MicroBatch, bool]]:
        """Yield this rank's passes, and, where it has none left of a form, those of others to
        join."""
        packs = [
            [*self.micro_batches(x.rollouts, x.trained)]
            for x in (self.share_of(update, rank) for rank in range(self.ranks.size))
        ]
        for shares in (True, False):
            forms = [[b for b in pack if (b.shared is not None) == shares] for pack in packs]
            for batches in zip_longest(*forms):
                mine = batches[self.ranks.rank]
                yield mine or next(filter(None, batches)), mine is not None

    def kept_weights(self) -> dict[str, Tensor]:
        """Return the weights' parts."""
        return {name: p.detach().clone() for name, p in self.parts.items()}

    @contextlib.contextmanager
    def swapped(self, weights: Any) -> Generator[None]:
        """Do nothing: `gathered` has put them in place."""
        yield

    def sum_gradient(self) -> None:
        for master in self.optimizer.masters.values():
            if master.grad is not None:
                master.grad.mul_(self.ranks.size)  # FSDP leaves the mean

    def trained_weights(self) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in self.parts.items()}

    def write(self, path: Path, arrays: dict[str, Tensor], **about: str) -> None:
        """Put each array together by itself, for rank 0 to write."""
        held = dict[str, Tensor]()
        for name, tensor in arrays.items():
            value = whole(tensor)
            if self.ranks.rank == 0:
                held[name] = value.cpu().contiguous()
        super().write(path, held, **about)

    def take(self, weights: dict[str, Tensor], state: dict[str, Tensor]) -> None:
        self.restored = weights, state

    def align(self) -> None:
        """Spread what rank 0 has restored. Without that, all have read the same files."""
        entries: list[str] | None = self.ranks.broadcast(self.restored and [*self.restored[1]])
        if entries is None:
            return
        (weights, state), self.restored = self.restored or ({}, {}), None
        self.optimizer.reset()  # of moments there are never two
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
    """The module that FSDP treats as the whole model: its forward runs one of our passes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, work: Callable[..., Tensor], *arguments: Any) -> Tensor:
        return work(self.model, *arguments)


def shard(model: Any, device: torch.device, dtype: torch.dtype) -> Root:
    """Spread a model's weights over all processes."""
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
    """Copy a module with parameters that hold no numbers yet. Ties stay ties."""

    def empty(p: nn.Parameter) -> nn.Parameter:
        return nn.Parameter(torch.empty(0, dtype=p.dtype, device=device), requires_grad=False)

    memo: dict[int, Any] = {id(p): empty(p) for p in module.parameters()}
    return copy.deepcopy(module, memo)


@torch.inference_mode(mode=False)
@torch.no_grad()
def whole(tensor: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Put a tensor together of every process's rows. All processes have to be here."""
    part: Any = tensor.detach().to(dtype or tensor.dtype)
    return part.full_tensor() if isinstance(part, DTensor) else part


def scattered(value: Tensor | None, like: Tensor) -> Tensor:
    """Rank 0's `value` in the type, place and parts of `like`. All have to be here; the others
    bring none."""
    held = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    if value is not None:
        held.copy_(value)
    if isinstance(like, DTensor):
        return distribute_tensor(held, like.device_mesh, like.placements)
    dist.broadcast(held, 0)
    return held

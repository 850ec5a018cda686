"""Several processes of the torch engine that spread the weights, by PyTorch's `fully_shard`.

Each process holds a part of every weight, its gradient and its moments. A pass of an update puts
one block together at a time. What samples and evaluates is a second module without weights of its
own (`skeleton`), which has them all, in the type that is computed in, for as long as that takes.
With adapters, which are small, only the model below them is spread.
"""

import contextlib
import copy
from collections.abc import Callable, Generator, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from ictcli.algorithm.objective import SEQUENCE
from ictcli.engine.distributed import by_all
from ictcli.engine.packing import MicroBatch
from ictcli.engine.update import Update, UpdateStats
from ictcli.errors import RunFailedError
from ictcli.recipe.tables import OptimizerSettings
from ictcli.types import BoolArray, FloatArray, Rollouts

from .device import ran_out
from .files import part
from .model import blocks
from .optimizer import Optimizer
from .prefix import wanted_states
from .ranks import DataParallelEngine
from .update import Passes


class Root(nn.Module):
    """What FSDP takes for the whole model: a pass of ours runs within its forward."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, work: Callable[..., Tensor], *arguments: Any) -> Tensor:
        return work(self.model, *arguments)


class ShardedPasses(Passes):
    """Passes whose blocks are put together one at a time."""

    def __init__(self, root: Root, vocabulary: int, *, recompute: bool) -> None:
        super().__init__(root.model, vocabulary, recompute=recompute)
        self.root = root

    def states(self, batch: MicroBatch) -> Tensor:
        return self.root(wanted_states, batch)


class ShardedEngine(DataParallelEngine):
    """An engine of one rank."""

    parallelism = "sharded"
    at_hand = False
    """Whether what samples and evaluates has all weights."""
    parted = False
    """Whether each rank writes its own part of a checkpoint."""

    def make_optimizer(self, settings: OptimizerSettings) -> Optimizer:
        trained, computes = self.model, self.model.dtype
        weights = dict(trained.named_parameters())
        adapters = {name: p for name, p in weights.items() if "lora_" in name}
        own = (
            {p for p in weights.values() if p.requires_grad} if self.adapted is not None else set()
        )
        self.counts = {
            "parameters": trained.num_parameters() - sum(p.numel() for p in adapters.values()),
            "trained": sum(p.numel() for p in weights.values() if p.requires_grad),
        }
        module = trained if self.adapted is None else self.adapted
        copied = skeleton(module, own)
        if not own:
            trained.float()
        self.root = shard(trained, own, self.device, computes)
        self.training = ShardedPasses(
            self.root, self.vocabulary, recompute=self.settings.gradient_checkpointing
        )
        self.parts = {name: p for name, p in trained.named_parameters() if p not in own}
        """This process's part of each weight that is spread."""
        if self.adapted is not None:
            self.adapted = copied
        self.model = copied if self.adapted is None else copied.get_base_model()
        return Optimizer(trained, settings)

    def align(self) -> None:
        if self.adapted is not None:
            super().align()

    def describe(self) -> dict[str, Any]:
        return super().describe() | self.counts

    @contextlib.contextmanager
    def gathered(self, *, reference: bool = False) -> Generator[None]:
        """Within, the module that samples and evaluates has all weights."""
        held = [(name, p) for name, p in self.model.named_parameters() if name in self.parts]
        weights = self.reference if reference and self.adapted is None else self.parts
        try:
            for name, p in held:
                p.data = whole(weights[name].detach()).to(p.dtype)
            self.at_hand = True
            yield
        finally:
            self.at_hand = False
            for _, p in held:
                p.data = p.data.new_empty(0)

    @contextlib.contextmanager
    def alone(self) -> Generator[None]:
        """Within, rank 0 works with all weights by itself."""
        with self.ranks.together():
            self.tell("join")
            with self.gathered():
                yield

    def join(self) -> None:
        """Let rank 0 have all weights."""
        with self.gathered():
            pass

    def logits(self, rollouts: Rollouts, where: BoolArray) -> FloatArray:
        with contextlib.nullcontext() if self.at_hand else self.alone():
            return super().logits(rollouts, where)

    def export(self, folder: Path, *, packed: bool = False) -> None:
        with self.alone():
            super().export(folder, packed=packed)

    @by_all
    def keep_reference(self) -> None:
        """With adapters it is the model without them; else a copy in the parts of the weights."""
        if self.adapted is not None:
            self.reference = self.model
        else:
            self.reference = {name: p.detach().clone() for name, p in self.parts.items()}

    @contextlib.contextmanager
    def as_reference(self) -> Generator[None]:
        """With all weights of the reference at hand (`gathered`)."""
        with contextlib.nullcontext() if self.adapted is None else super().as_reference():
            yield

    def gradient(self, update: Update) -> UpdateStats:
        """The whole batch's gradient and figures. All ranks do as many passes, of the same form,
        since all put each block together at once; a pass of no row of this rank's has no weight."""
        objective, mine = update.objective, self.share_of(update, self.ranks.rank)
        self.optimizer.drop_gradient()
        stats = UpdateStats(np.zeros(update.rollouts.tokens.shape, dtype=np.float32))
        reference = self._logp(mine, reference=True) if objective.kl > 0 else None
        now = self._logp(mine) if update.compares_sequences else None
        try:
            for batch, is_own in self._rounds(update):
                terms = update.tokenwise(batch)
                if reference is not None:
                    terms["reference"] = batch.take(reference)
                if now is not None and is_own:
                    terms[SEQUENCE] = batch.row_means(batch.take(now) - terms["old_logp"])
                if is_own:
                    figures = self.training.backward(batch, terms, update)
                    stats.add(batch, terms, objective, figures)
                else:
                    terms["weights"] = np.zeros_like(terms["weights"])
                    self.training.backward(batch, terms, update)
        except Exception as error:
            if not ran_out(error):
                raise
            raise RunFailedError(
                f"Memory ran out in a pass of an update, of {self.budget.tokens:,} tokens at most.",
                "lower engine.micro_tokens in the run's recipe.toml, and resume",
            ) from error
        stats = self.summed(stats)
        if stats.count:
            self.sum_gradient()
        return stats

    def sum_gradient(self) -> None:
        if self.adapted is not None:
            super().sum_gradient()
            return
        for master in self.optimizer.masters.values():
            if master.grad is not None:
                master.grad.mul_(self.ranks.size)  # FSDP leaves the mean

    def _rounds(self, update: Update) -> Iterator[tuple[MicroBatch, bool]]:
        """This rank's passes, and passes of others where it has none left of a form; each with
        whether it is its own."""
        packs = [
            [*self.budget.micro_batches(x.rollouts, x.trained, share=self.training.share)]
            for x in (self.share_of(update, rank) for rank in range(self.ranks.size))
        ]
        for shares in (True, False):
            forms = [[b for b in pack if (b.shared is not None) == shares] for pack in packs]
            for batches in zip_longest(*forms):
                own = batches[self.ranks.rank]
                yield own or next(filter(None, batches)), own is not None

    def _logp(self, update: Update, *, reference: bool = False) -> FloatArray:
        """(B, T) log-probabilities at the trained tokens of this rank."""
        values = np.zeros(update.rollouts.tokens.shape, dtype=np.float32)
        policy = self.as_reference() if reference else contextlib.nullcontext()
        with self.gathered(reference=reference), policy:
            for batch in self._micro_batches(update.rollouts, update.trained):
                values[batch.rows, batch.positions] = self.logp(batch, update.objective.temperature)
        return values

    def trained_weights(self) -> dict[str, Tensor]:
        if self.adapted is not None:
            return super().trained_weights()
        return {name: p.detach() for name, p in self.parts.items()}

    def save(self, folder: Path) -> None:
        if self.adapted is not None:
            super().save(folder)
        else:
            self.save_parts(str(folder.resolve()))

    @by_all
    def save_parts(self, folder: str) -> None:
        """Every rank writes its parts where all see the folder; else rank 0 writes all."""
        self.parted = all(self.ranks.gather(Path(folder).is_dir()))
        super().save(Path(folder))
        self.ranks.gather(None)  # rank 0 takes checksums of all parts

    def write_arrays(self, path: Path, arrays: dict[str, Tensor], **about: str) -> None:
        held, rank = dict[str, Tensor](), self.ranks.rank
        for name, tensor in arrays.items():
            value = local(tensor) if self.parted else whole(tensor)
            if self.parted or rank == 0:
                held[name] = value.cpu()
        if self.parted:
            super().write_arrays(part(path, rank, self.ranks.size), held)
        elif rank == 0:
            super().write_arrays(path, held, **about)

    def take(self, weights: dict[str, Tensor], state: dict[str, Tensor]) -> None:
        if self.adapted is not None:
            super().take(weights, state)
            return
        entries: list[str] = self.ranks.broadcast(list(state))
        step = torch.zeros((), device=self.device)
        like = {e: step if e.startswith("step/") else self.parts[e.split("/")[1]] for e in entries}
        state = {entry: scattered(state.get(entry), tensor) for entry, tensor in like.items()}
        weights = {name: scattered(weights.get(name), p) for name, p in self.parts.items()}
        self.optimizer.load(state, weights)


def shard(model: Any, own: set[nn.Parameter], device: torch.device, computes: torch.dtype) -> Root:
    """Spread a model's weights over all processes, but for those that each keeps as its `own`."""
    how: dict[str, Any] = {"mesh": init_device_mesh(device.type, (dist.get_world_size(),))}
    if own:
        how["ignored_params"] = own
    elif computes != torch.float32:
        how["mp_policy"] = MixedPrecisionPolicy(
            param_dtype=computes, reduce_dtype=torch.float32, cast_forward_inputs=False
        )
    for block in blocks(model):
        fully_shard(block, **how)
    root = Root(model)
    fully_shard(root, **how)
    return root


def skeleton(module: Any, own: set[nn.Parameter]) -> Any:
    """A copy of a module with parameters that hold no numbers yet, but for those of `own`, which
    are shared. Ties stay ties."""
    memo: dict[int, Any] = {
        id(p): p if p in own else nn.Parameter(p.data.new_empty(0), requires_grad=False)
        for p in module.parameters()
    }
    return copy.deepcopy(module, memo)


def whole(tensor: Tensor) -> Tensor:
    """A tensor, put together where every process holds a part of it. All have to be here."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def local(tensor: Tensor) -> Tensor:
    """This process's part."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


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

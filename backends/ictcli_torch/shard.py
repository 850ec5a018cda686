"""Several processes of the torch engine that spread the weights, by PyTorch's `fully_shard`.

Each process holds a part of every weight, its gradient and its moments. A pass of an update puts
one block together at a time. What samples and evaluates is a second module without weights of its
own (`skeleton`), which has them all, in the type that is computed in, for as long as that takes, or
with engine.shard = "blocks" one block's at a time. With adapters, which are small, only the model
below them is spread. Each process reads its part of the model's files (`files`).
"""

import contextlib
from collections.abc import Generator, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ictcli.engine.distributed import by_all
from ictcli.engine.packing import MicroBatch
from ictcli.engine.update import Update, pass_over
from ictcli.errors import RunFailedError
from ictcli.recipe.tables import OptimizerSettings
from ictcli.types import BoolArray, FloatArray, Rollouts, UpdateReport

from .device import ran_out
from .engine import TorchEngine
from .files import Places, open_arrays, part, read_parts, write_each, write_files
from .model import blocks
from .optimizer import Optimizer
from .spread import BlockByBlock, local, scattered, shard, skeleton, whole

Weights = list[tuple[str, nn.Parameter]]
"""Some of those of the module that samples, with their names."""


class ShardedEngine(TorchEngine):
    """An engine of one rank, that trains adapters: the weights below them are spread."""

    parallelism = "sharded"
    in_parts = True
    at_hand = False
    """Whether what samples and evaluates has all weights."""
    walk: BlockByBlock | None = None
    """Where weights are put together block by block to sample and evaluate."""

    def make_optimizer(self, settings: OptimizerSettings) -> Optimizer:
        trained, computes = self.model, self.model.dtype
        weights = dict(trained.named_parameters())
        own = {p for p in weights.values() if p.requires_grad and self.adapted is not None}
        for p in own:  # adapters on a model without numbers are made on the CPU
            p.data = p.data.to(self.device)
        self.stored: Places = getattr(trained, "places", {})
        copied = skeleton(trained if self.adapted is None else self.adapted, own, self.device)
        if not own:
            trained.float()
        self.root = shard(trained, own, self.device, computes)
        self.parts = {name: p for name, p in trained.named_parameters() if p not in own}
        """This process's part of each weight that is spread."""
        if self.stored:
            named = {name.replace(".base_layer.", "."): p for name, p in self.parts.items()}
            read_parts(named, self.stored, computes)
            for name in (name for name in weights if "lora_magnitude" in name):  # of DoRA
                below = self.parts[name.split("lora_magnitude")[0] + "base_layer.weight"]
                norms: Any = torch.linalg.norm(below.detach(), dim=1)
                weights[name].data.copy_(norms.full_tensor())
        self.model = copied
        if self.adapted is not None:
            self.adapted, self.model = copied, copied.get_base_model()
        of_blocks = [{id(p) for p in block.parameters()} for block in blocks(self.model)]
        held = [(n, p) for n, p in self.model.named_parameters() if n in self.parts]
        self.blocks = [[(n, p) for n, p in held if id(p) in block] for block in of_blocks]
        self.rest = [[(n, p)] for n, p in held if not any(id(p) in block for block in of_blocks)]
        if self.settings.shard == "blocks":
            put, drop = (lambda n: self.put(self.blocks[n])), (lambda n: self.drop(self.blocks[n]))
            self.walk = BlockByBlock(blocks(self.model), put, drop)
        return Optimizer(trained, settings)

    @contextlib.contextmanager
    def gathered(self, *, reference: bool = False, every: bool = False) -> Generator[None]:
        """Within, the module that samples and evaluates has all weights; of its blocks only where
        they do not come one by one, or `every` is wanted."""
        self.values = self.reference if reference and self.adapted is None else self.parts
        groups = self.rest if self.walk and not every else [*self.rest, *self.blocks]
        try:
            for group in groups:
                self.put(group)
            self.at_hand = True
            yield
            self.go_along()
        finally:
            self.at_hand = False
            for group in groups:
                self.drop(group)

    def put(self, weights: Weights) -> None:
        """Put these together. All have to be here."""
        for kind in dict.fromkeys(p.dtype for _, p in weights):
            some = [(name, p) for name, p in weights if p.dtype == kind]
            parts = [self.values[name] for name, _ in some]
            for (_, p), value in zip(some, whole(parts, kind), strict=True):
                p.data = value

    def drop(self, weights: Weights) -> None:
        for _, p in weights:
            p.data = p.data.new_empty(0)

    def go_along(self) -> None:
        if self.walk:
            self.walk.go_along()

    @contextlib.contextmanager
    def alone(self, *, every: bool = False) -> Generator[None]:
        """Within, rank 0 works with all weights by itself."""
        with self.ranks.together():
            self.tell("join", every=every)
            with self.gathered(every=every):
                yield

    def join(self, *, every: bool) -> None:
        """Let rank 0 have all weights."""
        with self.gathered(every=every):
            pass

    @contextlib.contextmanager
    def for_sampling(self, tokens: int, *, rounded: bool) -> Generator[None]:
        plain = super().for_sampling(tokens, rounded=rounded)
        with contextlib.nullcontext() if self.walk else plain:  # which prepares whole weights
            yield

    def logits(self, rollouts: Rollouts, where: BoolArray) -> FloatArray:
        with contextlib.nullcontext() if self.at_hand else self.alone():
            return super().logits(rollouts, where)

    @contextlib.contextmanager
    def merged(self, *, exactly: bool = False) -> Generator[None]:
        """With all weights. All have to be here, unless they are `alone`."""
        weights = contextlib.nullcontext() if self.at_hand else self.gathered(every=True)
        with weights, super().merged(exactly=exactly):
            yield

    def write_model(self, folder: Path) -> None:
        with self.alone(every=True):
            super().write_model(folder)

    def write_whole(self, path: Path) -> None:
        with self.alone(every=True):
            super().write_whole(path)

    def gradient(self, update: Update) -> UpdateReport:
        """As of any launch, but that where memory runs out the run ends: all ranks do as many
        passes, of the same form, since all put each block together at once."""
        try:
            own = self.of_rank(update, pass_over(self, update))
        except Exception as error:
            if not ran_out(error):
                raise
            raise RunFailedError(
                f"Memory ran out in a pass of an update, of {self.budget.tokens:,} tokens at most.",
                "lower engine.micro_tokens in the run's recipe.toml, and resume",
            ) from error
        report = self.summed(self.ranks.gather(own))
        if report.evaluated:
            self.sum_gradient()
        return report

    def rounds(self, update: Update, own: Update) -> Iterator[tuple[MicroBatch, bool]]:
        """This rank's passes, and those of others where it has none left of a form."""
        packs = [
            [*self.micro_batches(x.rollouts, x.trained)]
            for x in (self.share_of(update, rank) for rank in range(self.ranks.size))
        ]
        for shares in (True, False):
            forms = [[b for b in pack if (b.shared is not None) == shares] for pack in packs]
            for batches in zip_longest(*forms):
                mine = batches[self.ranks.rank]
                yield mine or next(filter(None, batches)), mine is not None


class ShardedWeights(ShardedEngine):
    """One that trains all weights, its part of each, with its moments."""

    parted = False
    """Whether each rank writes its own part of a checkpoint."""

    def align(self) -> None:
        """Each has read its part."""

    def write_model(self, folder: Path) -> None:
        if not self.stored:
            return super().write_model(folder)
        self.model.save_pretrained(folder, state_dict={})
        return self.write_weights(str(folder))

    def write_whole(self, path: Path) -> None:
        if not self.stored:
            return super().write_whole(path)
        return self.write_weights(str(path), ties=True)

    @by_all
    def write_weights(self, place: str, *, ties: bool = False) -> None:
        """Each weight is put together by itself, for rank 0 to write, into a folder; with tied ones
        by all their names into a file."""
        names = {p: name for name, p in self.model.named_parameters()}
        known = dict(self.model.named_parameters(remove_duplicate=not ties))
        held = {name: b for name, b in self.model.named_buffers() if name in self.stored}
        held |= {name: self.parts[names[p]] for name, p in known.items()}
        like = {
            n: torch.empty(x.shape, dtype=known.get(n, x).dtype, device="meta")
            for n, x in held.items()
        }
        where = Path(place) if self.ranks.rank == 0 else None
        write = write_each if ties else write_files
        write(where, like, lambda name: whole([held[name]], like[name].dtype)[0])

    def kept_weights(self) -> dict[str, Tensor]:
        """In the parts of the weights."""
        return {name: p.detach().clone() for name, p in self.parts.items()}

    @contextlib.contextmanager
    def swapped(self, weights: Any) -> Generator[None]:
        """`gathered` has put them in place."""
        yield

    def sum_gradient(self) -> None:
        for master in self.optimizer.masters.values():
            if master.grad is not None:
                master.grad.mul_(self.ranks.size)  # FSDP leaves the mean

    def trained_weights(self) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in self.parts.items()}

    def save(self, folder: Path) -> None:
        self.save_parts(str(folder.resolve()))

    @by_all
    def save_parts(self, folder: str) -> None:
        """Every rank writes its parts where all see the folder; else rank 0 writes all."""
        self.parted = all(self.ranks.gather(Path(folder).is_dir()))
        super().save(Path(folder))
        self.ranks.gather(None)  # rank 0 takes checksums of all parts

    def write_arrays(self, path: Path, arrays: dict[str, Tensor], **about: str) -> None:
        if self.parted:
            held = {name: local(tensor).cpu() for name, tensor in arrays.items()}
            return super().write_arrays(part(path, self.ranks.rank, self.ranks.size), held)
        place = path if self.ranks.rank == 0 else None
        return write_each(place, arrays, lambda name: whole([arrays[name]])[0], **about)

    def read_arrays(self, path: Path) -> Mapping[str, Any]:
        return open_arrays(path)

    def take(self, weights: dict[str, Tensor], state: dict[str, Tensor]) -> None:
        self.optimizer.reset()  # of moments there are never two
        with torch.no_grad():
            for name, weight in self.parts.items():
                weight.copy_(scattered(weights.get(name), weight))
        entries: list[str] = self.ranks.broadcast(list(state))
        step = torch.zeros((), device=self.device)
        like = {e: step if e.startswith("step/") else self.parts[e.split("/")[1]] for e in entries}
        self.optimizer.load(
            {entry: scattered(state.get(entry), tensor) for entry, tensor in like.items()},
            self.trained_weights(),
        )

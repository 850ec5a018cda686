"""What an engine's memory is computed from, and the memory models that engines bring.

A memory model is a module of its engine that imports no device library, found by an entry point in
the group `ictcli.plans` under the engine's name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Protocol

from ictcli.algorithm.selection import share_count
from ictcli.engine.packing import MAX_LOGITS
from ictcli.engine.shape import ModelShape
from ictcli.errors import UserError
from ictcli.recipe import Recipe

Parts = dict[str, float]
"""Bytes by part: weights, KV cache, activations, ..."""


@dataclass(frozen=True)
class Workload:
    """A recipe on a model of known size and a device."""

    recipe: Recipe
    shape: ModelShape
    device: str
    """cpu, gpu (MLX's), cuda or mps."""
    prompt: int
    """Tokens of a prompt."""

    @property
    def gpu(self) -> bool:
        return self.device != "cpu"

    @property
    def width(self) -> int:
        """Bytes of a number of the model; engines choose the type by the same rule."""
        dtype = self.recipe.engine.dtype
        return 2 if dtype == "bfloat16" or (dtype == "auto" and self.gpu) else 4

    @property
    def length(self) -> int:
        """Tokens of a row: prompt and full response."""
        return self.prompt + self.recipe.max_tokens

    def groups_at_once(self, prompts: int, group: int) -> int:
        """Prompts whose rows are decoded side by side."""
        return min(prompts, max(1, self.recipe.engine.rows // group))

    def cache(self, rows: int, positions: int) -> float:
        """Bytes of the keys and values of `rows`."""
        return 2.0 * rows * positions * self.shape.layers * self.shape.keys * self.width

    @property
    def adapted(self) -> dict[str, tuple[int, int]]:
        """(in, out) of the linear layers of a block that get adapters."""
        if not self.recipe.adapters:
            return {}
        targets, linears = set(self.recipe.adapter.targets), self.shape.linears
        return {k: v for k, v in linears.items() if not targets or {k, k.split(".")[1]} & targets}

    @property
    def blocks(self) -> int:
        """Number of final blocks that are trained."""
        wanted = self.recipe.adapter.layers if self.recipe.adapters else 0
        return min(wanted or self.shape.layers, self.shape.layers)

    @property
    def trained(self) -> int:
        """Trained numbers."""
        if not self.recipe.adapters:
            return self.shape.parameters
        rank, dora = self.recipe.adapter.rank, self.recipe.adapter.kind == "dora"
        return self.blocks * sum(rank * (a + b) + dora * b for a, b in self.adapted.values())

    def held(self) -> Parts:
        """Bytes that are held in every phase."""
        full = not self.recipe.adapters
        adamw = self.recipe.optimizer.kind == "adamw"
        moment = 8.0 if adamw else 2 + 8 / 256  # of 8 bits, blocks of 256 share a scale
        return {
            "weights": self.shape.weights(self.width),
            "adapters": 0 if full else 4 * self.trained,
            "reference policy": self.width * self.trained if full and self.recipe.kl > 0 else 0,
            "float32 masters": 4 * self.trained if full and self.width < 4 else 0,
            "AdamW's moments": moment * self.trained,
        }

    def passes(self) -> Iterator[tuple[int, int, int]]:
        """(rows, length, places of the LM head) of an update's largest pass: of a dense step, and
        of one that keeps a share. Rows of full length are packed as by `engine.packing`."""
        recipe, T = self.recipe, self.recipe.max_tokens
        share = getattr(recipe.options(), "keep", None)
        if recipe.rule.name == "frequent" and share is not None:  # it keeps all but the share
            share = 1 - share
        shares = {1.0 if share is None else share}
        if recipe.rule.dense_warmup and recipe.warmup:
            shares.add(1.0)
        batch = (recipe.update.minibatch or recipe.prompts) * recipe.group
        limit = max(MAX_LOGITS // self.shape.vocabulary, 1)
        for share in shares:
            places = min(max(share_count(share, T), 1), limit)  # more of them take several passes
            rows = min(batch, recipe.engine.micro_tokens // self.length, limit // places)
            if isinstance(recipe.engine.micro_batch, int):
                rows = min(rows, recipe.engine.micro_batch)
            rows = max(1, rows)
            yield rows, self.length, rows * places


class MemoryModel(Protocol):
    """The bytes an engine takes, by part. Each phase yields the moments at which its memory may
    peak, without what is held in all of them."""

    PACKS_ON: tuple[str, ...]
    """Devices on which the engine can load a model in 4 bits."""

    def held(self, work: Workload) -> Parts:
        """Held in every phase."""
        ...

    def sampling(
        self, work: Workload, prompts: int, group: int, stats: tuple[str, ...]
    ) -> Iterator[Parts]: ...

    def updating(self, work: Workload) -> Iterator[Parts]: ...


@cache
def memory_model(backend: str) -> MemoryModel:
    """The memory model of an engine. Raises UserError where it has none."""
    for point in entry_points(group="ictcli.plans", name=backend):
        return point.load()
    raise UserError(f"How much memory the {backend} engine takes is not known.")

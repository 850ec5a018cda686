"""What an engine's memory is computed from, and the memory models that engines bring.

A memory model is a module of its engine that imports no device library, found by an entry point in
the group `ictcli.plans` under the engine's name.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from ictcli.algorithm.selection import share_count
from ictcli.engine.dtype import in_bfloat16
from ictcli.engine.packing import CHUNK_LOGITS, is_worth_sharing
from ictcli.engine.registry import brought_by
from ictcli.engine.shape import ModelShape
from ictcli.errors import UserError
from ictcli.recipe import Recipe

Parts = dict[str, float]
"""Bytes by part: weights, KV cache, activations, ..."""


@dataclass(frozen=True)
class Layout:
    """The processes that a run is planned for, one a GPU."""

    processes: int = 1
    sharded: bool = False
    """Whether weights, gradients and moments are spread over them."""

    @property
    def shards(self) -> int:
        return self.processes if self.sharded else 1

    def share(self, prompts: int) -> int:
        """The prompts of a process, of so many."""
        return -(-prompts // self.processes)


@dataclass(frozen=True)
class Workload:
    """A recipe on a model of known size and a device."""

    recipe: Recipe
    shape: ModelShape
    device: str
    """cpu, gpu (MLX's), cuda or mps."""
    prompt: int
    """Tokens of a prompt."""
    layout: Layout = field(default_factory=Layout)

    @property
    def gpu(self) -> bool:
        return self.device != "cpu"

    @property
    def width(self) -> int:
        """Bytes of a number of the model; engines choose the type by the same rule."""
        return 2 if in_bfloat16(self.recipe.engine.dtype, gpu=self.gpu) else 4

    @property
    def length(self) -> int:
        """Tokens of a row: prompt and full response."""
        return self.prompt + self.recipe.max_tokens

    def groups_at_once(self, prompts: int, group: int) -> int:
        """Prompts whose rows are decoded side by side."""
        return min(prompts, max(1, self.recipe.engine.rows // group))

    def cache(self, rows: int, positions: int, width: int = 0) -> float:
        """Bytes of the keys and values of `rows`, of `width` bytes a number, or the model's."""
        numbers = 2.0 * rows * positions * self.shape.layers * self.shape.keys
        return numbers * (width or self.width)

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
        rank = self.recipe.adapter.rank
        return self.blocks * sum(rank * (a + b) for a, b in self.adapted.values())

    def held(self) -> Parts:
        """Bytes that are held in every phase."""
        full = not self.recipe.adapters
        return {
            "weights": self.shape.weights(self.width),
            "adapters": 0 if full else 4 * self.trained,
            "reference policy": self.width * self.trained if full and self.recipe.kl > 0 else 0,
            "float32 masters": 4 * self.trained if full and self.width < 4 else 0,
            "AdamW's moments": 8.0 * self.trained,
        }

    def passes(self, *, joined: int = 0, share: bool = True) -> Iterator["Pass"]:
        """An update's largest pass: of a dense step, and of one that keeps a share. Rows of full
        length are packed as by `engine.packing`; with `share` the engine can share prompts. With
        `joined`, no pass of shorter rows takes more tokens, on one process."""
        recipe, T = self.recipe, self.recipe.max_tokens
        keep = getattr(recipe.options(), "keep", None)
        if recipe.rule.name == "frequent" and keep is not None:  # it keeps all but the share
            keep = 1 - keep
        shares = {1.0 if keep is None else keep}
        if recipe.rule.dense_warmup and recipe.warmup:
            shares.add(1.0)
        at_once = max(CHUNK_LOGITS // self.shape.vocabulary, 1)
        for rows, prompts, limit in self._packed(joined, share=share and not self.shape.windowed):
            for kept in shares:
                wanted = max(rows * max(share_count(kept, T), 1), share_count(kept, limit))
                yield Pass(rows, prompts, self.prompt, T, min(wanted, at_once), limit)

    def _packed(self, joined: int, *, share: bool) -> Iterator[tuple[int, int, int]]:
        """Rows and prompts of a pass, and its tokens at most (0: any). With `joined` both ways, as
        other rows decide if a prompt is shared, and rounded up, as shorter rows fill the rest."""
        recipe, P, T = self.recipe, self.prompt, self.recipe.max_tokens
        G, budget = recipe.group, recipe.engine.micro_tokens
        group, most = P + G * T, (recipe.update.minibatch or recipe.prompts) * G
        if isinstance(recipe.engine.micro_batch, int):
            most = min(most, recipe.engine.micro_batch)
        if not joined:
            worth = share and is_worth_sharing((G - 1) * P, G * self.length)
            fill = budget // group * G or (budget - P) // T if worth else budget // self.length
            rows = max(1, min(most, fill))
            yield rows, -(-rows // G) if worth else rows, 0
            return
        tokens = max(min(budget, joined), self.length)
        rows = min(most, -(-tokens // self.length))
        yield rows, rows, tokens
        if share:
            tokens = max(tokens, min(budget, group))
            rows = -(-tokens * G // group) if tokens > group else -(-(tokens - P) // T)
            rows = min(most, rows)
            yield rows, -(-rows // G), tokens


@dataclass(frozen=True)
class Pass:
    """One pass of an update."""

    rows: int
    prompts: int
    """Prompts that are run: fewer than rows where rows share them."""
    prompt: int
    response: int
    """Tokens of each."""
    logits: int
    """Rows of logits that the LM head makes at once."""
    limit: int = 0
    """Tokens at most, where shorter rows decide; 0: as many as its rows have."""

    @property
    def length(self) -> int:
        """Positions that a row looks back at."""
        return self.prompt + self.response

    @property
    def tokens(self) -> int:
        """Tokens that go through the model."""
        full = self.prompts * self.prompt + self.rows * self.response
        return min(full, self.limit or full)

    @property
    def repeated(self) -> int:
        """Positions whose keys and values are repeated for rows that share a prompt."""
        return self.rows * self.prompt if self.prompts < self.rows else 0


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


def memory_model(backend: str) -> MemoryModel:
    """The memory model of an engine. Raises UserError where it has none."""
    if model := brought_by(backend, "ictcli.plans"):
        return model
    raise UserError(f"How much memory the {backend} engine takes is not known.")

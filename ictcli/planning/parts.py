"""What every plan of memory is computed of: a recipe, a model's shape and a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ictcli.algorithm.selection import share_count
from ictcli.engine import choose_backend
from ictcli.engine.packing import MAX_LOGITS, bucket
from ictcli.planning.shapes import Shape
from ictcli.recipe import Recipe

Parts = dict[str, float]
"""Bytes by part."""


@dataclass(frozen=True)
class Run:
    """What the parts of a plan are computed of."""

    recipe: Recipe
    shape: Shape
    device: str
    """cpu, gpu (of MLX), cuda or mps."""
    prompt: int

    @property
    def backend(self) -> str:
        return choose_backend(self.recipe.engine.backend)

    @property
    def gpu(self) -> bool:
        return self.device != "cpu"

    @property
    def width(self) -> int:
        """Bytes of a number of the model, as the engines choose its type."""
        dtype = self.recipe.engine.dtype
        return 2 if dtype == "bfloat16" or (dtype == "auto" and self.gpu) else 4

    @property
    def compiled(self) -> bool:
        """Whether passes are padded to a bucket's size: MLX keeps a trace for each."""
        chosen = self.recipe.engine.compile
        return self.backend == "mlx" and (chosen == "on" or (chosen == "auto" and self.gpu))

    @property
    def length(self) -> int:
        return self.prompt + self.recipe.max_tokens

    @property
    def adapted(self) -> dict[str, tuple[int, int]]:
        """(in, out) of the linear layers of a block that get adapters."""
        if not self.recipe.adapters:
            return {}
        wanted, known = set(self.recipe.adapter.targets), self.shape.linears
        return {k: v for k, v in known.items() if not wanted or {k, k.split(".")[1]} & wanted}

    @property
    def blocks(self) -> int:
        """How many of the last blocks are trained."""
        wanted = self.recipe.adapter.layers if self.recipe.adapters else 0
        return min(wanted or self.shape.layers, self.shape.layers)

    @property
    def block(self) -> int:
        """Trained numbers of a block."""
        if not self.recipe.adapters:
            return self.shape.block
        rank, dora = self.recipe.adapter.rank, self.recipe.adapter.kind == "dora"
        return sum(rank * (a + b) + dora * b for a, b in self.adapted.values())

    @property
    def trained(self) -> int:
        return self.blocks * self.block if self.recipe.adapters else self.shape.parameters

    @property
    def moment(self) -> float:
        """Bytes of a trained number's moments; of 8 bits, blocks of 256 share a scale."""
        return 8.0 if self.recipe.optimizer.kind == "adamw" else 2 + 8 / 256

    def held(self) -> Parts:
        """What is there in every phase."""
        full = not self.recipe.adapters
        return {
            "weights": self.shape.weights(self.width),
            "adapters": 0 if full else 4 * self.trained,
            "reference policy": self.width * self.trained if full and self.recipe.kl > 0 else 0,
            "float32 masters": 4 * self.trained if full and self.width < 4 else 0,
            "AdamW's moments": self.moment * self.trained,
        }


def passes(run: Run) -> Iterator[tuple[int, int, int]]:
    """(rows, length, places of the LM head) of the passes of a dense step and of one that keeps a
    share, as `ictcli.engine.packing` cuts them from rows of full length."""
    recipe, T = run.recipe, run.recipe.max_tokens
    share = getattr(recipe.options(), "keep", None)
    if recipe.rule.name == "frequent" and share is not None:  # all but the share
        share = 1 - share
    shares = {1.0 if share is None else share}
    if recipe.rule.dense_warmup and recipe.warmup:
        shares.add(1.0)
    batch = (recipe.update.minibatch or recipe.prompts) * recipe.group
    limit = max(MAX_LOGITS // run.shape.vocabulary, 1)
    for share in shares:
        places = min(max(share_count(share, T), 1), limit)  # a row of more runs several times
        rows = min(batch, recipe.engine.micro_tokens // run.length, limit // places)
        if isinstance(recipe.engine.micro_batch, int):
            rows = min(rows, recipe.engine.micro_batch)
        rows = max(1, rows)
        if run.compiled:
            yield bucket(rows), bucket(run.length), bucket(rows * places, 2)
        else:
            yield rows, run.length, rows * places

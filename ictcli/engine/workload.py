"""The inputs of an engine's memory estimate. The estimate is made by the module `plan` of each
backend, without importing its device library: `held`, `sampling` and `updating` return bytes."""

from dataclasses import dataclass
from typing import NamedTuple

from ictcli.algorithm.quantities import statistic
from ictcli.algorithm.selection import share_count
from ictcli.engine.dtype import in_bfloat16
from ictcli.engine.packing import CHUNK_LOGITS, is_worth_sharing
from ictcli.engine.shape import ModelShape
from ictcli.recipe import Recipe

Parts = dict[str, float]
"""Bytes by part: weights, KV cache, activations, ..."""


class Pass(NamedTuple):
    """The largest pass of an update."""

    tokens: int
    """Number of tokens that go through the model."""
    repeated: int
    """Number of positions whose keys and values are copied for rows that share a prompt."""
    logits: int
    """Rows of logits that the LM head computes at once."""


@dataclass(frozen=True)
class Workload:
    """The work of one process: a recipe, the sizes of the model, and the device."""

    recipe: Recipe
    shape: ModelShape
    device: str
    """cpu, gpu (MLX's), cuda or mps."""
    prompt: int
    """Number of tokens in a prompt."""

    @property
    def gpu(self) -> bool:
        return self.device != "cpu"

    @property
    def width(self) -> int:
        """Bytes per weight, by the rule that the engines use."""
        return 2 if in_bfloat16(self.recipe.engine.dtype, gpu=self.gpu) else 4

    @property
    def length(self) -> int:
        """Number of tokens in a row: a prompt and a response of full length."""
        return self.prompt + self.recipe.max_tokens

    def rows_at_once(self, prompts: int, group: int) -> int:
        """Return how many rows are decoded at once."""
        return min(prompts, max(1, self.recipe.engine.rows // group)) * group

    def cache(self, rows: int, positions: float, width: int = 0) -> float:
        """Return the bytes of a KV cache; `width`: bytes per number, 0 = as for a weight."""
        return 2.0 * rows * positions * self.shape.layers * self.shape.keys * (width or self.width)

    @property
    def adapted(self) -> dict[str, tuple[int, int]]:
        """(in, out) of the linear layers of a block that get adapters, by name."""
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
        """Number of trained parameters."""
        if not self.recipe.adapters:
            return self.shape.parameters
        return self.blocks * self.recipe.adapter.rank * sum(a + b for a, b in self.adapted.values())

    def held(self) -> Parts:
        """Return the bytes by part that are in memory all the time."""
        full, halved = not self.recipe.adapters, self.width < 4
        return {
            "weights": self.shape.weights(self.width),
            "adapters": 0 if full else 4 * self.trained,
            "reference policy": self.width * self.trained if full and self.recipe.kl > 0 else 0,
            "float32 masters": 4 * self.trained if full and halved else 0,
            "AdamW's moments": 8 * self.trained,
        }

    def statistics(self, stats: tuple[str, ...], row: float, group: float) -> float:
        """Return `group` if any of `stats` compares rows, else `row`, or 0 without statistics."""
        if any(statistic(name).kind == "group" for name in stats):
            return group
        return row if stats else 0.0

    def largest_pass(self, *, joined: int = 0, share: bool = True) -> Pass:
        """Return the largest pass of an update whose rows have full length. `joined` and `share`
        have the meaning that they have in `ictcli.engine.packing.micro_batches`."""
        recipe, P, T = self.recipe, self.prompt, self.recipe.max_tokens
        G, budget = recipe.group, recipe.engine.micro_tokens
        worth = share and not self.shape.windowed and is_worth_sharing((G - 1) * P, G * self.length)
        row = T + P / G if worth else self.length
        if joined:  # rounded up, since shorter rows fill the rest
            budget = min(budget, max(joined, worth * G * row)) + self.length
        rows = max(1, min((recipe.update.minibatch or recipe.prompts) * G, int(budget / row)))
        prompts = -(-rows // G) if worth else rows
        keep = getattr(recipe.options(), "keep", None)
        if keep is None or (recipe.rule.dense_warmup and recipe.warmup):
            keep = 1.0
        elif recipe.rule.name == "frequent":  # it leaves out the share `keep`
            keep = 1 - keep
        logits = min(rows * max(share_count(keep, T), 1), CHUNK_LOGITS // self.shape.vocabulary)
        repeated = rows * P if prompts < rows else 0
        return Pass(prompts * P + rows * T, repeated, max(logits, 1))

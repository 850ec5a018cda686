"""The memory of a GPU in a launch of the torch engine on several."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ictcli.engine import choose_backend
from ictcli.engine.shape import ModelShape, read_shape
from ictcli.engine.workload import Layout
from ictcli.errors import UserError
from ictcli.planning.estimate import MARGIN, MemoryEstimate, estimate_memory
from ictcli.recipe import Recipe

LAYOUTS = {"replicated": False, "sharded": True}
"""Whether each spreads weights, gradients and moments."""
SIZES = (24, 40, 80, 140)
"""GiB of a GPU: of an RTX 4090, an A100, an H100 and an H200, say."""
COUNTS = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class GpuPlan:
    """A GPU's memory by layout, on as many GPUs as asked for."""

    count: int
    limit: float
    """Bytes a GPU may take; 0 where it was not said."""
    estimates: dict[str, MemoryEstimate]
    fewest: dict[str, dict[int, int | None]]
    """By layout and GiB of a GPU, the fewest GPUs of `COUNTS` on which it fits into `MARGIN` of
    that; None = on none of them."""

    @property
    def chosen(self) -> str:
        """All weights on every GPU where one is said to hold them, else spread."""
        fits = self.estimates["replicated"].peak() <= MARGIN * self.limit
        return "replicated" if fits else "sharded"

    def json(self) -> dict[str, Any]:
        """As `--dry-run --gpus --json` prints it."""
        return {
            "gpus": self.count,
            "chosen": self.chosen,
            "limit_bytes": round(self.limit) or None,
            "plans": {name: estimate.json() for name, estimate in self.estimates.items()},
            "fewest_gpus": self.fewest,
        }


def plan_gpus(recipe: Recipe, count: int, gib: float = 0.0) -> GpuPlan:
    """Plan a run of the torch engine on `count` CUDA GPUs, each of `gib` where that is known.

    Raises UserError for another engine, and where the model's size cannot be read.
    """
    if choose_backend(recipe.engine.backend) != "torch":
        raise UserError("Several GPUs take the torch engine.", "--backend torch")
    recipe, shape = recipe.with_engine(device="cuda"), read_shape(recipe.model)
    estimates = {
        name: estimate_memory(recipe, shape, layout=Layout(count, sharded))
        for name, sharded in LAYOUTS.items()
    }
    fewest = {name: dict(_fewest(recipe, shape, LAYOUTS[name])) for name in LAYOUTS}
    return GpuPlan(count, gib * 2**30, estimates, fewest)


def _fewest(recipe: Recipe, shape: ModelShape, sharded: bool) -> Iterator[tuple[int, int | None]]:
    peaks = {n: estimate_memory(recipe, shape, layout=Layout(n, sharded)).peak() for n in COUNTS}
    for gib in SIZES:
        yield gib, next((n for n, peak in peaks.items() if peak <= MARGIN * gib * 2**30), None)

"""The memory of a GPU in a launch of the TRL engine on several, and the launch that it takes.

ZeRO-3 stands beside what ictcli launches: by its paper (Rajbhandari et al. 2020, section 3.1) it
spreads 16 bytes a trained parameter, and so does FSDP2 with weights of float32.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ictcli.engine import choose_backend
from ictcli.engine.shape import ModelShape, read_shape
from ictcli.engine.workload import Launch
from ictcli.errors import UserError
from ictcli.planning.estimate import MARGIN, MemoryEstimate, estimate_memory
from ictcli.recipe import Recipe

PARALLELISM = {"DDP": False, "FSDP2": True, "ZeRO-3": True}
"""Whether each spreads weights, gradients and moments."""
LAUNCHED = ("DDP", "FSDP2")
"""What ictcli can launch."""
SIZES = (24, 40, 80, 140)
"""GiB of a GPU: of an RTX 4090, an A100, an H100 and an H200, say."""
COUNTS = (2, 4, 8, 16, 32, 64)

CONFIGURATION = """\
compute_environment: LOCAL_MACHINE
distributed_type: {kind}
machine_rank: 0
main_training_function: main
mixed_precision: "no"  # ictcli computes as engine.dtype says
num_machines: 1
num_processes: {processes}
use_cpu: false
"""
FSDP = """\
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_cpu_ram_efficient_loading: false
  fsdp_reshard_after_forward: true
"""


@dataclass(frozen=True)
class GpuPlan:
    """A GPU's memory by parallelism, on as many GPUs as asked for."""

    count: int
    limit: float
    """Bytes a GPU may take; 0 where it was not said."""
    estimates: dict[str, MemoryEstimate]
    fewest: dict[str, dict[int, int | None]]
    """By parallelism and GiB of a GPU, the fewest GPUs of `COUNTS` on which it fits into `MARGIN`
    of that; None = on none of them."""

    @property
    def chosen(self) -> str:
        """DDP where a GPU is said to hold it, else FSDP2."""
        return "DDP" if self.estimates["DDP"].peak() <= MARGIN * self.limit else "FSDP2"

    def configuration(self) -> str:
        """The file that `accelerate launch --config_file` takes, for the GPUs of one machine."""
        sharded = PARALLELISM[self.chosen]
        kind = "FSDP" if sharded else "MULTI_GPU"
        written = CONFIGURATION.format(kind=kind, processes=self.count)
        return written + (FSDP if sharded else "")

    def json(self) -> dict[str, Any]:
        """As `--dry-run --gpus --json` prints it."""
        return {
            "gpus": self.count,
            "chosen": self.chosen,
            "launched": list(LAUNCHED),
            "limit_bytes": round(self.limit) or None,
            "plans": {name: estimate.json() for name, estimate in self.estimates.items()},
            "fewest_gpus": self.fewest,
        }


def plan_gpus(recipe: Recipe, count: int, gib: float = 0.0) -> GpuPlan:
    """Plan a run of the TRL engine on `count` CUDA GPUs, each of `gib` where that is known.

    Raises UserError for another engine, and where the model's size cannot be read.
    """
    if choose_backend(recipe.engine.backend) != "trl":
        raise UserError("Several GPUs take the TRL engine.", "--backend trl")
    recipe, shape = recipe.with_engine(device="cuda"), read_shape(recipe.model)
    estimates = {
        name: estimate_memory(recipe, shape, launch=Launch(count, sharded))
        for name, sharded in PARALLELISM.items()
    }
    fewest = {name: dict(_fewest(recipe, shape, PARALLELISM[name])) for name in PARALLELISM}
    return GpuPlan(count, gib * 2**30, estimates, fewest)


def _fewest(recipe: Recipe, shape: ModelShape, sharded: bool) -> Iterator[tuple[int, int | None]]:
    peaks = {n: estimate_memory(recipe, shape, launch=Launch(n, sharded)).peak() for n in COUNTS}
    for gib in SIZES:
        yield gib, next((n for n, peak in peaks.items() if peak <= MARGIN * gib * 2**30), None)

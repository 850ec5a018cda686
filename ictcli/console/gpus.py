"""What `ictcli train --dry-run --gpus N` prints: the memory of a GPU by layout."""

from ictcli.console.plain import narrate, narrate_paragraph
from ictcli.console.table import print_json
from ictcli.planning.estimate import MARGIN, SIZES, GpuPlan
from ictcli.recipe import Recipe


def print_gpu_plan(recipe: Recipe, plan: GpuPlan, *, as_json: bool) -> None:
    """On stderr, or as JSON on stdout."""
    if as_json:
        print_json({"recipe": recipe.model_dump(mode="json", exclude_none=True)} | plan.json())
        return
    narrate_paragraph(
        f"memory a GPU on {plan.count} GPUs, in GiB; prompts and full responses are assumed as "
        "without --gpus. It is computed and was not measured on GPUs."
    )
    phases = next(iter(plan.estimates.values())).phases
    narrate("", f"{'':10}" + "".join(f"{name:>12}" for name in [*phases, "peak"]))
    for name, estimate in plan.estimates.items():
        cells = [estimate.peak(phase) for phase in [*phases, ""]]
        narrate(f"{name:10}" + "".join(f"{size / 2**30:>12.1f}" for size in cells))
    narrate("", f"fewest GPUs that take it, at most {MARGIN:.0%} full:", "")
    narrate(f"{'':10}" + "".join(f"{f'{gib} GiB':>12}" for gib in SIZES))
    for name, fewest in plan.fewest.items():
        counts = (str(fewest[gib] or "none to 64") for gib in SIZES)
        narrate(f"{name:10}" + "".join(f"{count:>12}" for count in counts))
    shard = " engine.shard=true" if plan.chosen == "sharded" else ""
    narrate("", f"next: torchrun --nproc-per-node {plan.count} -m ictcli -- train RECIPE{shard}")

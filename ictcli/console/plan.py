"""The output of `ictcli train --dry-run`: the size of a step and the memory estimate."""

from ictcli.console.lines import narrate, narrate_paragraph
from ictcli.console.table import print_json
from ictcli.planning.advice import MemoryCheck
from ictcli.planning.estimate import MemoryEstimate
from ictcli.recipe import Recipe
from ictcli.tables.numbers import counted
from ictcli.train.step import mini_batches


def plan(recipe: Recipe, memory: MemoryCheck, *, as_json: bool) -> None:
    """Print a run's steps and its memory by part, on stderr, or as JSON on stdout."""
    rollouts = recipe.prompts * recipe.group
    updates = len(mini_batches(recipe)) * recipe.update.epochs
    if as_json:
        fields = {
            "recipe": recipe.model_dump(mode="json", exclude_none=True),
            "rollouts_per_step": rollouts,
            "updates_per_step": updates,
            "memory": memory.json(),
        }
        print_json(fields)
        return
    redraws, sft = recipe.sampling.redraw, recipe.sft
    redrawn = f", {redraws + 1} times as many if prompts are replaced" if redraws else ""
    examples = counted(sft.batch, "example")
    first = f" after {counted(sft.steps, 'supervised step')} of {examples}" if sft.data else ""
    narrate_paragraph(
        f"plan: {recipe.steps} steps of {recipe.prompts} prompts x {recipe.group} rollouts "
        f"({rollouts} rollouts, at most {rollouts * recipe.max_tokens:,} "
        f"response tokens per step{redrawn}), "
        f"{updates} optimiser update{'s' * (updates > 1)} per step, method {recipe.label}{first}."
    )
    if memory.estimate:
        _print_estimate(memory.estimate)
    narrate_paragraph(memory.sentence)
    narrate("time: ictcli check estimates it by timing a step.")


def _print_estimate(estimate: MemoryEstimate) -> None:
    kind = estimate.shape.kind
    guess = "" if kind == "qwen2" else f" (an estimate: {kind})"
    narrate_paragraph(
        f"memory: {estimate.shape.parameters:,} parameters{guess}, {estimate.trained:,} of them "
        f"trained, {estimate.tokens:,} tokens per step, if prompts have {estimate.prompt} tokens "
        "and responses max_tokens."
    )
    phases = estimate.phases.values()
    names = dict.fromkeys(
        name for parts in phases for name in parts if any(p.get(name) for p in phases)
    )
    sizes = {name: [parts.get(name, 0) for parts in phases] for name in names}
    sizes["peak"] = [estimate.peak(phase) for phase in estimate.phases]
    narrate("", f"{'GiB':22}" + "".join(f"{phase:>12}" for phase in estimate.phases))
    for name, row in sizes.items():
        cells = (f"{size / 2**30:.2f}" if size else "" for size in row)
        narrate(f"{name:22}" + "".join(f"{cell:>12}" for cell in cells))

"""What `ictcli train --dry-run` prints: the size of a step, the memory estimate, the examples."""

from dataclasses import asdict

from ictcli.console.plain import narrate, narrate_paragraph
from ictcli.console.table import print_json
from ictcli.errors import UserError
from ictcli.planning.advice import MemoryCheck
from ictcli.planning.estimate import MemoryEstimate
from ictcli.recipe import Recipe
from ictcli.tasks.prepare import task_of
from ictcli.text import duration
from ictcli.train.costs import RunCosts
from ictcli.train.step import mini_batches


def plan(
    recipe: Recipe, memory: MemoryCheck, costs: RunCosts | None = None, *, as_json: bool = False
) -> None:
    """Print what a run will do, the memory it takes by part and the time, if `costs` were measured:
    on stderr, or as JSON on stdout."""
    rollouts = recipe.prompts * recipe.group
    updates = len(mini_batches(recipe.prompts, recipe.update.minibatch)) * recipe.update.epochs
    if as_json:
        fields = {
            "recipe": recipe.model_dump(mode="json", exclude_none=True),
            "rollouts_per_step": rollouts,
            "updates_per_step": updates,
            "memory": memory.json(),
            "time": _time_json(recipe, costs) if costs else None,
        }
        print_json(fields)
        return
    narrate_paragraph(
        f"plan: {recipe.steps} steps of {recipe.prompts} prompts x {recipe.group} rollouts "
        f"({rollouts} rollouts, at most {rollouts * recipe.max_tokens:,} "
        f"response tokens a step), "
        f"{updates} optimiser update{'s' * (updates > 1)} a step, method {recipe.rule.name}.",
    )
    if memory.estimate:
        _print_estimate(memory.estimate)
    narrate_paragraph(memory.sentence)
    _print_time(recipe, costs)


def _time_json(recipe: Recipe, costs: RunCosts) -> dict[str, float]:
    estimate = costs.time(recipe)
    seconds = {"seconds": costs.load + estimate.seconds, "load": costs.load, **asdict(estimate)}
    return {name: round(value, 3) for name, value in seconds.items()}


TIMED = (
    "Steps were timed on this machine, the second of two of each kind; they get longer or shorter "
    "with the responses as the model learns."
)


def _print_time(recipe: Recipe, costs: RunCosts | None) -> None:
    """How long the run takes, and what that rests on."""
    if costs is None:
        narrate_paragraph(
            "time: not known without a timed step; --dry-run --time loads the model and times two."
        )
        return
    estimate = costs.time(recipe)
    whole = duration(costs.load + estimate.seconds)
    narrate_paragraph(
        f"time: about {whole}: {duration(costs.load)} to load, {estimate.parts()}. {TIMED}"
    )


def _print_estimate(estimate: MemoryEstimate) -> None:
    """A row a part, a column a phase, in GiB."""
    kind = estimate.shape.kind
    guess = "" if kind == "qwen2" else f" (an estimate: {kind})"
    narrate_paragraph(
        f"memory: {estimate.shape.parameters:,} parameters{guess}, {estimate.trained:,} of them "
        f"trained, {estimate.tokens:,} tokens a step; prompts of {estimate.prompt} tokens and full "
        "responses are assumed.",
    )
    narrate("", f"{'GiB':22}" + "".join(f"{phase:>12}" for phase in estimate.phases))
    phases = estimate.phases.values()
    names = dict.fromkeys(name for parts in phases for name in parts)
    body = {name: [parts.get(name, 0) for parts in phases] for name in names}
    body["peak"] = [estimate.peak(phase) for phase in estimate.phases]
    for name, sizes in body.items():
        if any(sizes):
            cells = (f"{size / 2**30:.2f}" if size else "" for size in sizes)
            narrate(f"{name:22}" + "".join(f"{cell:>12}" for cell in cells))


def examples(recipe: Recipe) -> None:
    """Print the examples that prompt.shots draws, on stderr, or why they cannot be shown."""
    if not recipe.prompt.shots:
        return
    try:
        drawn = task_of(recipe).prompt.examples
    except UserError as error:
        narrate("", f"examples: they cannot be shown. {error.message} ({error.hint})")
        return
    for number, example in enumerate(drawn, 1):
        narrate("", *f"example {number}: {example.prompt}\n{example.response}".split("\n"))

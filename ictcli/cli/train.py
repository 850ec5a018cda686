"""ictcli train: train a model as a recipe says."""

from pathlib import Path

import click

from ictcli.cli import candidates
from ictcli.cli.engines import BACKEND
from ictcli.cli.process import TRUST, finite, process_options


@click.command("train")
@click.argument("recipe", shell_complete=candidates.recipes)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=candidates.settings)
@BACKEND
@click.option("--run", "folder", type=click.Path(path_type=Path), help="The run folder to make.")
@click.option(
    "--beside",
    metavar="METHODS",
    shell_complete=candidates.methods,
    help="Then train with these too, and print all in one table: grpo,random.",
)
@click.option("--dry-run", is_flag=True, help="Print the resolved recipe and what it plans; stop.")
@click.option(
    "--memory",
    type=click.FloatRange(0, 1e6, min_open=True),
    callback=finite,
    metavar="GIB",
    help="With --dry-run: plan for a machine of so much memory, on CUDA for such a GPU.",
)
@click.option(
    "--time",
    "timed",
    is_flag=True,
    help="With --dry-run: time two steps and say how long it takes.",
)
@click.option(
    "--gpus",
    type=click.IntRange(2, 4096),
    metavar="N",
    help="With --dry-run --backend trl: plan for so many GPUs, of --memory each.",
)
@click.option(
    "--write-accelerate",
    "accelerate",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --gpus: write accelerate's configuration for them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary, or the plan, as JSON.")
@TRUST
@process_options
def command(
    recipe: str,
    overrides: tuple[str, ...],
    backend: str | None,
    folder: Path | None,
    beside: str | None,
    dry_run: bool,
    memory: float | None,
    timed: bool,
    gpus: int | None,
    accelerate: Path | None,
    as_json: bool,
    threads: int | None,
) -> None:
    """Train a model as RECIPE says: a shipped recipe's name, or a .toml file.

    \b
    ictcli train quickstart
    ictcli train quickstart method=grpo seed=1 steps=200
    ictcli train quickstart --beside grpo,random
    ictcli train my-recipe.toml --run runs/mine --dry-run --memory 16
    """
    from ictcli.compare.design import Design, slug
    from ictcli.compare.variants import read_methods, variants_of
    from ictcli.console import narrate, observer, output, report
    from ictcli.console.beside import narrate_unfinished, print_beside
    from ictcli.console.gpus import print_gpu_plan
    from ictcli.console.plan import examples, plan
    from ictcli.files import write_text
    from ictcli.planning.advice import check_memory
    from ictcli.planning.gpus import plan_gpus
    from ictcli.planning.machine import memory_limit
    from ictcli.planning.preflight import check_context, preflight, recipe_notes
    from ictcli.recipe import find_recipe, load_recipe, to_toml, unused_keys
    from ictcli.runs import Run, free_folder
    from ictcli.runs.records import Summary
    from ictcli.runs.trust import read_typed
    from ictcli.train.launch import launch

    file = read_typed(recipe)
    extra = [f"engine.backend={backend}"] if backend else []
    extra += [f"engine.threads={threads}"] if threads else []
    resolved = load_recipe(file, [*overrides, *extra])
    for key, setting in unused_keys(resolved, overrides).items():
        narrate(f"note: {key} has no effect with {setting}")
    if beside is not None and dry_run:
        raise click.UsageError("--beside trains; ictcli compare --dry-run plans several methods.")
    if (memory or timed or gpus) and not dry_run:
        option = "--memory" if memory else "--time" if timed else "--gpus"
        raise click.UsageError(f"{option} plans, and goes with --dry-run.")
    if memory and timed:
        raise click.UsageError("--time is of this machine, --memory of another: one of them.")
    if accelerate and not gpus:
        raise click.UsageError("--write-accelerate goes with --dry-run --gpus N.")
    if timed and gpus:
        raise click.UsageError("--time is of this machine, --gpus of others: one of them.")
    if dry_run:
        for note in preflight(resolved):
            narrate(f"note: {note}")
        if gpus:
            planned = plan_gpus(resolved, gpus, memory or 0.0)
            if accelerate:
                write_text(accelerate, planned.configuration())
            if not as_json:
                output(*to_toml(resolved).removesuffix("\n").split("\n"))
            print_gpu_plan(resolved, planned, accelerate, as_json=as_json)
            return
        estimated = check_memory(resolved, memory_limit(resolved.engine, memory or 0.0))
        if not as_json:
            output(*to_toml(resolved).removesuffix("\n").split("\n"))
        costs = None
        if timed and estimated.fits is not False:
            from ictcli.train.costs import measure

            narrate("timing steps, in a temporary folder")
            costs = measure(resolved)
        plan(resolved, estimated, costs, as_json=as_json)
        if not as_json:
            examples(resolved)
        return
    recipes = {resolved.rule.name: resolved}
    if beside is not None:
        variants = variants_of(read_methods(beside, "--beside"), [], "--beside")
        design = Design(file, (*overrides, *extra), variants, 1, Path("runs"))
        recipes |= design.beside(resolved)
        for each in recipes.values():  # before hours of another's training
            recipe_notes(each)
            check_context(each)

    def place(label: str) -> Path:
        if folder is None:
            name = f"{find_recipe(recipe).stem}-{slug(label)}-s{resolved.seed}"
            return free_folder(Path("runs"), name)
        if not done:
            return folder
        first = folder if folder.name not in ("", "..") else folder.resolve()
        return free_folder(first.parent, f"{first.name}-{slug(label)}")

    done: dict[Path, Summary] = {}
    for later, (label, each) in zip(reversed(range(len(recipes))), recipes.items(), strict=True):
        new = Run.create(place(label), each)
        if beside:
            narrate(f"run {len(recipes) - later}/{len(recipes)}: {label}")
        try:
            with new, observer(each, new.folder, later, live=not as_json) as observing:
                done[new.folder] = launch(new, each, observing, observing.attach)
        finally:
            if new.folder not in done:
                narrate_unfinished(list(recipes), list(done))
    if beside:
        print_beside(list(recipes), done, as_json=as_json)
        return
    for run, summary in done.items():
        report(summary, run, resolved, as_json=as_json)

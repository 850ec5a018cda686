"""ictcli train: train a model as a recipe says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ictcli.cli import completion, json_option
from ictcli.cli.options import BACKEND, TRUST, engine_settings, finite, process_options

if TYPE_CHECKING:
    from ictcli.recipe import Recipe, RecipeFile
    from ictcli.runs import Run
    from ictcli.runs.records import Summary


@click.command("train")
@click.argument("recipe", shell_complete=completion.recipes)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@BACKEND
@click.option(
    "--run",
    "folder",
    type=click.Path(path_type=Path),
    help="The run folder to make; without it one in runs/.",
)
@click.option(
    "--beside",
    metavar="METHODS",
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
@json_option(help="Print the summary, or the plan, as JSON.")
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
    from ictcli.console.beside import print_beside
    from ictcli.console.lines import narrate
    from ictcli.console.results import report
    from ictcli.recipe import find_recipe, load_recipe, unused_keys
    from ictcli.runs.trust import read_typed
    from ictcli.train.diagnosis import check_learned

    file = read_typed(recipe)
    settings = (*overrides, *engine_settings(backend, threads))
    resolved = load_recipe(file, settings)
    for key, setting in unused_keys(resolved, overrides).items():
        narrate(f"note: {key} has no effect with {setting}")
    if memory and not dry_run:
        raise click.UsageError("--memory plans, and goes with --dry-run.")
    if dry_run:
        if beside is not None:
            raise click.UsageError(
                "--beside trains; ictcli compare --dry-run plans several methods."
            )
        _plan(resolved, memory or 0.0, as_json=as_json)
        return
    recipes = {resolved.label: resolved}
    if beside is not None:
        recipes |= _beside(file, settings, resolved, beside)
    name = f"{find_recipe(recipe).stem}-{{}}-s{resolved.seed}"
    done = _train(recipes, folder, name, live=not as_json)
    if beside:
        print_beside(list(recipes), done, as_json=as_json)
        return
    for run, summary in done.items():
        report(summary, run, resolved, as_json=as_json)
        check_learned(summary)


def _plan(recipe: Recipe, memory: float, *, as_json: bool) -> None:
    from ictcli.console.lines import narrate, output
    from ictcli.console.plan import plan
    from ictcli.planning.advice import check_memory
    from ictcli.planning.machine import memory_limit
    from ictcli.planning.preflight import preflight
    from ictcli.recipe import to_toml

    for note in preflight(recipe):
        narrate(f"note: {note}")
    planned = check_memory(recipe, memory_limit(recipe.engine, memory))
    if not as_json:
        output(*to_toml(recipe).removesuffix("\n").split("\n"))
    plan(recipe, planned, as_json=as_json)


def _beside(
    file: RecipeFile, settings: tuple[str, ...], recipe: Recipe, methods: str
) -> dict[str, Recipe]:
    """The recipes of the other methods, by label. UserError before hours of another's training."""
    from ictcli.compare.design import Design
    from ictcli.compare.variants import read_methods, variants_of
    from ictcli.planning.preflight import check_context, recipe_notes

    variants = variants_of(read_methods(methods, "--beside"), [], "--beside")
    recipes = Design(file, settings, variants, 1, Path("runs")).beside(recipe)
    for each in (recipe, *recipes.values()):
        recipe_notes(each)
        check_context(each)
    return recipes


def _train(
    recipes: dict[str, Recipe], folder: Path | None, name: str, *, live: bool
) -> dict[Path, Summary]:
    """One run after another, the first in `folder`: their summaries by folder."""
    from ictcli.console.beside import narrate_unfinished
    from ictcli.console.lines import narrate
    from ictcli.console.live import observer
    from ictcli.train.finish import finished
    from ictcli.train.launch import launch

    done: dict[Path, Summary] = {}
    for number, (label, recipe) in enumerate(recipes.items(), 1):
        run = _begin(_place(folder, name, label, first=not done), recipe)
        if len(recipes) > 1:
            narrate(f"run {number}/{len(recipes)}: {label}")
        narrate(f"loading {recipe.data_name}")
        try:
            with run, observer(recipe, run.folder, live=live) as observing:
                summary = finished(run, recipe, narrate)  # of a launch that was started again
                done[run.folder] = summary or launch(run, recipe, observing)
        finally:
            if run.folder not in done:
                narrate_unfinished(list(recipes), list(done))
    return done


def _begin(folder: Path, recipe: Recipe) -> Run:
    """A new run; or, where torchrun has started its processes again, the one that they began."""
    from ictcli.console.lines import narrate
    from ictcli.ranks import is_restarted
    from ictcli.runs import Run, is_run

    if is_restarted() and is_run(folder):
        run, began = Run.open(folder)
        if began == recipe:
            narrate(f"a process was lost: {folder} goes on from its last checkpoint")
            return run
    return Run.create(folder, recipe)


def _place(folder: Path | None, name: str, label: str, *, first: bool) -> Path:
    """The folder of a run: as it was typed, beside that, or in runs/ with the label in `name`."""
    from ictcli.compare.design import slug
    from ictcli.errors import UserError
    from ictcli.ranks import is_restarted
    from ictcli.runs import free_folder

    if is_restarted() and (folder is None or not first):
        raise UserError(
            "A process was lost, and which run folder this launch had begun is not known.",
            "torchrun ... train RECIPE --run FOLDER goes on by itself; ictcli resume RUN does too",
        )
    if folder is None:
        return free_folder(Path("runs"), name.format(slug(label)))
    if first:
        return folder
    whole = folder if folder.name not in ("", "..") else folder.resolve()
    return free_folder(whole.parent, f"{whole.name}-{slug(label)}")

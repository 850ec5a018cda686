"""ictcli train: train a model with the settings of a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ictcli.cli import completion, json_option
from ictcli.cli.options import BACKEND, TRUST, engine_settings, process_options

if TYPE_CHECKING:
    from ictcli.recipe import Recipe
    from ictcli.runs import Run


@click.command("train")
@click.argument("recipe", shell_complete=completion.recipes)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@BACKEND
@click.option(
    "--run",
    "folder",
    type=click.Path(path_type=Path),
    help="The run folder to create.  [default: in runs/]",
)
@click.option("--dry-run", is_flag=True, help="Print all settings and the plan, and stop.")
@click.option(
    "--memory",
    type=click.FloatRange(0, 1e6, min_open=True),
    metavar="GIB",
    help="With --dry-run: plan for a machine (for CUDA: a GPU) with this much memory.",
)
@json_option(help="Print the summary, or the plan, as JSON.")
@TRUST
@process_options
def command(
    recipe: str,
    overrides: tuple[str, ...],
    backend: str | None,
    folder: Path | None,
    dry_run: bool,
    memory: float | None,
    as_json: bool,
    threads: int | None,
) -> None:
    """Train a model with the settings of RECIPE.

    RECIPE is the name of a shipped recipe (ictcli recipes ls), or a .toml file.

    \b
    ictcli train quickstart
    ictcli train quickstart method=grpo seed=1 steps=200
    ictcli train my-recipe.toml --run runs/mine --dry-run --memory 16
    """
    from ictcli.console.lines import narrate
    from ictcli.console.live import observer
    from ictcli.console.results import report
    from ictcli.export.make import merge_base
    from ictcli.recipe import find_recipe, load_recipe, unused_keys
    from ictcli.runs.trust import read_typed
    from ictcli.train.diagnosis import check_learned
    from ictcli.train.finish import finished
    from ictcli.train.launch import launch

    resolved = load_recipe(read_typed(recipe), (*overrides, *engine_settings(backend, threads)))
    for key, setting in unused_keys(resolved, overrides).items():
        narrate(f"note: {key} has no effect with {setting}")
    if memory and not dry_run:
        raise click.UsageError("--memory needs --dry-run.")
    if dry_run:
        _plan(resolved, memory or 0.0, as_json=as_json)
        return
    merge_base(resolved.model, narrate)
    run = _begin(folder, find_recipe(recipe).stem, resolved)
    narrate(f"loading {resolved.data_name}")
    with run, observer(resolved, run.folder, live=not as_json) as observing:
        summary = finished(run, resolved, narrate)  # after a restart by torchrun it may be done
        summary = summary or launch(run, resolved, observing)
    report(summary, run.folder, resolved, as_json=as_json)
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


def _begin(folder: Path | None, name: str, recipe: Recipe) -> Run:
    """Create a run in `folder`, by default a new one in runs/ named after `name`, the method and
    the seed. If torchrun restarted its processes, open the run that they began instead."""
    from ictcli.compare.design import slug
    from ictcli.console.lines import narrate
    from ictcli.errors import UserError
    from ictcli.ranks import is_restarted
    from ictcli.runs import Run, free_folder, is_run

    if not is_restarted():
        name = f"{name}-{slug(recipe.label)}-s{recipe.seed}"
        return Run.create(folder or free_folder(Path("runs"), name), recipe)
    if folder is None:
        raise UserError(
            "A process was lost, and the run folder of this launch is not known.",
            "torchrun ... train RECIPE --run FOLDER, or ictcli resume RUN, continues such a run",
        )
    if is_run(folder):
        run, began = Run.open(folder)
        if began == recipe:
            narrate(f"a process was lost: {folder} continues from its last checkpoint")
            return run
    return Run.create(folder, recipe)

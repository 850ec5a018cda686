"""ictcli compare: methods side by side on the same problems and seeds."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ictcli.cli import completion, json_option
from ictcli.cli.options import BACKEND, TRUST, engine_settings, process_options

if TYPE_CHECKING:
    from ictcli.compare.plan import CompareOptions, Study


@click.command("compare")
@click.argument("recipe", shell_complete=completion.recipes_and_studies)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=completion.settings)
@click.option(
    "--methods",
    default="ict,grpo,entropy20,stapo,random",
    show_default=True,
    shell_complete=completion.methods,
    help="Methods, with commas between; 'ict score=u*h' is one with a setting.",
)
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="Runs each.")
@click.option("--sweep", multiple=True, metavar="KEY=V,V", help="A setting to vary.")
@click.option(
    "--planned-seeds", type=click.IntRange(1), help="Seeds at the end, where you look before."
)
@click.option("--models", metavar="A,B", help="Base models: seeds start from one in turn.")
@click.option("--rewards", metavar="true,random,format", help="Rewards to train on.")
@click.option("--tune", metavar="KEY=V,V", help="Choose it for every method first, lr say.")
@click.option(
    "--tune-runs", default=3, show_default=True, type=click.IntRange(1), help="Runs of a value."
)
@click.option("--baseline", default="grpo", show_default=True, help="Differences are from this.")
@click.option("--cost-of", metavar="MODEL", help="Reckon what runs would cost on this model.")
@click.option("--stop-after-warmup", is_flag=True, help="Add runs that end with the warm-up.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 64), help="At a time.")
@BACKEND
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the runs; continued.")
@click.option("--details", is_flag=True, help="Print every table of the answer.")
@click.option("--dry-run", is_flag=True, help="Print the runs, their time and disk; stop.")
@json_option(help="Print the comparison, or with --dry-run the plan, as JSON.")
@TRUST
@process_options
def command(
    recipe: str,
    overrides: tuple[str, ...],
    methods: str,
    jobs: int,
    backend: str | None,
    out: Path | None,
    details: bool,
    dry_run: bool,
    as_json: bool,
    threads: int | None,
    **options: Any,
) -> None:
    """Train each method on the same problems, seeds and budget, and print them side by side.

    Stop it whenever you like: the same command continues where it was. A study is a comparison on
    several recipes.

    \b
    ictcli compare chain-compare --seeds 3
    ictcli compare chain-compare --sweep method.keep=0.05,0.1,0.2 --jobs 2 --dry-run
    ictcli compare chain-compare --tune lr=1e-4,2e-4,4e-4 --methods ict,grpo,random --seeds 5
    ictcli compare study --jobs 2
    """
    from ictcli.compare.folder import GOES_ON, check_kind, opened
    from ictcli.compare.plan import CompareOptions, plan_of, read_study
    from ictcli.compare.variants import read_methods
    from ictcli.console.lines import narrate
    from ictcli.errors import RunFailedError
    from ictcli.files import check_inside, encodable
    from ictcli.recipe import find_recipe

    typed = CompareOptions(methods=read_methods(methods, "--methods"), **options)
    study = read_study(recipe)
    folder = out or Path("runs") / f"compare-{find_recipe(recipe).stem}"
    check_inside(folder)
    settings = (*overrides, *engine_settings(backend))
    if study is None:
        plans = [plan_of(recipe, settings, typed, folder)]
    else:
        chosen, settings = _with_typed(study, typed), (*study.settings, *settings)
        folders = {source: folder / find_recipe(source).stem for source in study.recipes}
        plans = [plan_of(source, settings, chosen, own) for source, own in folders.items()]
    check_kind(folder, {plan.folder.name for plan in plans} if study else ())
    for note in dict.fromkeys(note for plan in plans for note in plan.notes):
        narrate(f"note: {note}")
    if dry_run:
        from ictcli.compare.time_estimate import estimate_comparison, measure_all
        from ictcli.console.compare import planned

        runs = [run.with_threads(threads) for plan in plans for run in plan.runs]
        planned(estimate_comparison(runs, measure_all(runs, narrate), jobs), jobs, as_json=as_json)
        return
    with opened(folder):
        from ictcli.compare.launch import train_all
        from ictcli.compare.run import run_comparison, run_study
        from ictcli.console.compare import comparison, studied
        from ictcli.console.live import observer

        watch = partial(observer, live=not as_json, told=set[str]())
        train = partial(train_all, observer=watch, say=narrate, jobs=jobs, threads=threads)
        line = encodable("ictcli " + shlex.join(sys.argv[1:]))
        if study:
            results, failed = run_study(plans, folder, train, narrate, line)
            studied(results, failed, folder, as_json=as_json)
        else:
            result, *_ = run_comparison(plans[0], train, narrate, line)
            comparison(result, folder, as_json=as_json, details=details)
            failed = result.failed
    if failed:
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        raise RunFailedError(f"A run failed{more}: {failed[0].rstrip('.')}.", GOES_ON)


def _with_typed(study: Study, typed: CompareOptions) -> CompareOptions:
    """The options of a study, but for what was typed on the command line."""
    source, by_hand = click.get_current_context().get_parameter_source, ParameterSource.COMMANDLINE
    names = {name for name in type(typed).model_fields if source(name) is by_hand}
    return study.model_copy(update=typed.model_dump(include=names))

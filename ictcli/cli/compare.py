"""ictcli compare: train several methods on the same problems and seeds, and compare them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from ictcli.cli import completion, json_option
from ictcli.cli.options import BACKEND, TRUST, engine_settings, process_options


@click.command("compare")
@click.argument("recipe", shell_complete=completion.recipes)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--methods",
    default="ict,grpo,entropy20,stapo,random",
    show_default=True,
    help="Methods, separated by commas; a method's options follow its name: 'ict score=u*h'.",
)
@click.option(
    "--seeds", default=3, show_default=True, type=click.IntRange(1), help="Runs per method."
)
@click.option("--sweep", multiple=True, metavar="KEY=V,V", help="A key to vary, and its values.")
@click.option("--models", metavar="A,B", help="Base models, divided evenly among the seeds.")
@click.option("--tune", metavar="KEY=V,V", help="First choose each method's best value of a key.")
@click.option(
    "--tune-runs", default=3, show_default=True, type=click.IntRange(1), help="Runs for each value."
)
@click.option("--baseline", help="Compare each method with this method.  [default: grpo]")
@click.option("--contrast", metavar="A:B,C:D", help="Compare these pairs of methods instead.")
@click.option(
    "--jobs", default=1, show_default=True, type=click.IntRange(1, 64), help="Runs in parallel."
)
@BACKEND
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the comparison's runs.")
@click.option("--details", is_flag=True, help="Print all tables.")
@click.option("--dry-run", is_flag=True, help="Print the runs and how long they take, and stop.")
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
    """Train methods on the same problems and compare them.

    All methods get the same seeds and budget. You may stop at any time: the same command continues.

    \b
    ictcli compare chain-compare --seeds 3
    ictcli compare chain-compare --sweep method.keep=0.05,0.1,0.2 --jobs 2 --dry-run
    ictcli compare chain-compare --tune lr=1e-4,2e-4,4e-4 --methods ict,grpo,random --seeds 5
    ictcli compare chain-compare --methods ict,random,grpo --contrast ict:random,ict:grpo
    """
    from ictcli.compare.folder import GOES_ON, opened
    from ictcli.compare.plan import CompareOptions, plan_of
    from ictcli.compare.variants import read_values
    from ictcli.console.lines import narrate
    from ictcli.errors import RunFailedError
    from ictcli.files import check_inside
    from ictcli.recipe import find_recipe
    from ictcli.text import command_again

    settings = CompareOptions(methods=read_values(methods, "method", "--methods"), **options)
    folder = out or Path("runs") / f"compare-{find_recipe(recipe).stem}"
    check_inside(folder)
    plan = plan_of(recipe, (*overrides, *engine_settings(backend)), settings, folder)
    for note in plan.notes:
        narrate(f"note: {note}")
    if dry_run:
        from ictcli.compare.time_estimate import estimate_comparison, measure_all
        from ictcli.console.compare import planned

        runs = [run.with_threads(threads) for run in plan.runs]
        planned(estimate_comparison(runs, measure_all(runs, narrate), jobs), jobs, as_json=as_json)
        return
    with opened(folder):
        from ictcli.compare.launch import train_all
        from ictcli.compare.run import run_comparison
        from ictcli.console.compare import comparison, status

        with status(drawn=not as_json) as show:
            train = partial(train_all, say=narrate, show=show, jobs=jobs, threads=threads)
            result = run_comparison(plan, train, narrate, command_again())
        comparison(result, folder, plan.notes, as_json=as_json, details=details)
    if failed := result.failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise RunFailedError(f"A run failed{more}: {failed[0].rstrip('.')}.", GOES_ON)

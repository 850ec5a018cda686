"""ictcli compare: methods side by side on the same problems and seeds."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from ictcli.cli.laptop import laptop
from ictcli.cli.train import BACKENDS


@click.command("compare")
@click.argument("recipe")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--methods",
    default="ict,grpo,entropy20,stapo,random",
    show_default=True,
    help="Methods, with commas between.",
)
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="Runs each.")
@click.option("--sweep", "sweeps", multiple=True, metavar="KEY=V,V", help="A setting to vary.")
@click.option("--tune", metavar="KEY=V,V", help="Choose it for every method first, lr say.")
@click.option("--baseline", default="grpo", show_default=True, help="Differences are from this.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 64), help="At a time.")
@click.option("--backend", type=BACKENDS, help="Which engine runs the model.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the runs; continued.")
@click.option("--dry-run", is_flag=True, help="Print the runs, their time and disk; stop.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@laptop
def command(
    recipe: str,
    overrides: tuple[str, ...],
    methods: str,
    seeds: int,
    sweeps: tuple[str, ...],
    tune: str | None,
    baseline: str,
    jobs: int,
    backend: str | None,
    out: Path | None,
    dry_run: bool,
    as_json: bool,
    threads: int | None,
) -> int:
    """Train each method on the same problems, seeds and budget, and print them side by side.

    Stop it whenever you like: the same command continues where it was.

    \b
    ictcli compare chain-compare --seeds 3
    ictcli compare chain-compare --sweep method.keep=0.05,0.1,0.2 --jobs 2 --dry-run
    ictcli compare chain-compare --tune lr=1e-4,2e-4,4e-4 --methods ict,grpo,random --seeds 5
    """
    from ictcli.compare.outlook import look_ahead, measure
    from ictcli.compare.plan import Plan, members, read_grid, tuning_members, variants_of
    from ictcli.compare.runs import train_all
    from ictcli.compare.tuning import best, reached
    from ictcli.console import RunWatcher, comparison, narrate, watcher
    from ictcli.console.compared import planned, tuned_to
    from ictcli.engine import build_engine
    from ictcli.errors import UserError
    from ictcli.files import write_json
    from ictcli.recipe import Recipe, find_recipe, load_recipe

    names = list(dict.fromkeys(name.strip() for name in methods.split(",") if name.strip()))
    if not names:
        raise UserError("--methods names no method.", "ictcli methods lists them")
    folder = out or Path("runs") / f"compare-{find_recipe(recipe).stem}"
    extra = (f"engine.backend={backend}",) if backend else ()
    load_recipe(recipe, [*overrides, *extra])  # plugins add methods
    variants = variants_of(names, [read_grid(text, "--sweep") for text in sweeps])
    if baseline not in {one for variant in variants for one in (variant.label, variant.method)}:
        narrate(f"note: the baseline {baseline} is not among the methods: {variants[0].label} is")
    plan = Plan(recipe, (*overrides, *extra), variants, seeds, folder)
    grid = read_grid(tune, "--tune") if tune else None
    tries = tuning_members(plan, grid) if grid else []
    trials = [member for member, _ in tries]
    if dry_run:
        wanted = [*trials, *members(plan, final=grid is None)]
        planned(wanted, look_ahead(wanted, measure(wanted[0].recipe), jobs), jobs)
        return 0

    def live(run_recipe: Recipe, path: Path) -> RunWatcher:
        return watcher(run_recipe, path, live=not as_json)

    failed: list[str] = []
    chosen, tuned = None, None
    if grid:
        summaries, failed = train_all(trials, live, narrate, jobs=jobs, threads=threads)
        tuned = reached(tries, summaries)
        chosen = best(tuned, variants)
        tuned_to(chosen)
    runs = members(plan, chosen)
    summaries, missed = train_all(runs, live, narrate, jobs=jobs, threads=threads)
    from ictcli.compare.report import write_report
    from ictcli.compare.result import gather

    result = gather(
        plan,
        runs,
        summaries,
        build_engine(runs[0].recipe.model, runs[0].recipe.engine),
        baseline=baseline,
        command="ictcli " + shlex.join(sys.argv[1:]),
        tuned=tuned,
        failed=[*failed, *missed],
    )
    write_json(folder / "comparison.json", result)
    write_report(result, folder)
    comparison(result, folder, as_json=as_json)
    return 1 if failed or missed else 0

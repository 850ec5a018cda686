"""ictcli compare: methods side by side on the same problems and seeds."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ictcli.cli import candidates
from ictcli.cli.engines import BACKEND
from ictcli.cli.process import TRUST, process_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ictcli.compare.design import Design, Grid, RunSpec
    from ictcli.compare.launch import Summaries
    from ictcli.recipe import Recipe


@click.command("compare")
@click.argument("recipe", shell_complete=candidates.recipes)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=candidates.settings)
@click.option(
    "--methods",
    default="ict,grpo,entropy20,stapo,random",
    show_default=True,
    shell_complete=candidates.methods,
    help="Methods, with commas between.",
)
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="Runs each.")
@click.option("--sweep", "sweeps", multiple=True, metavar="KEY=V,V", help="A setting to vary.")
@click.option("--tune", metavar="KEY=V,V", help="Choose it for every method first, lr say.")
@click.option("--baseline", default="grpo", show_default=True, help="Differences are from this.")
@click.option("--stop-after-warmup", is_flag=True, help="Add runs that end with the warm-up.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 64), help="At a time.")
@BACKEND
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the runs; continued.")
@click.option("--dry-run", is_flag=True, help="Print the runs, their time and disk; stop.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the comparison, or with --dry-run the plan, as JSON.",
)
@TRUST
@process_options
def command(
    recipe: str,
    overrides: tuple[str, ...],
    methods: str,
    seeds: int,
    sweeps: tuple[str, ...],
    tune: str | None,
    baseline: str,
    stop_after_warmup: bool,
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
    from ictcli.compare.design import (
        Design,
        check_keys,
        read_grid,
        run_specs,
        stopped_variants,
        tuning_specs,
        variants_of,
    )
    from ictcli.compare.folder import check_report, opened
    from ictcli.compare.time_estimate import estimate_comparison, measure_all
    from ictcli.compare.tuning import check_problems, earlier_choice
    from ictcli.console import narrate
    from ictcli.console.compare import planned
    from ictcli.errors import UserError
    from ictcli.recipe import find_recipe, load_recipe
    from ictcli.runs.trust import check_recipe

    names = list(dict.fromkeys(name.strip() for name in methods.split(",") if name.strip()))
    if not names:
        raise UserError("--methods names no method.", "ictcli methods lists them")
    folder = out or Path("runs") / f"compare-{find_recipe(recipe).stem}"
    extra = (f"engine.backend={backend}",) if backend else ()
    check_recipe(recipe)
    load_recipe(recipe, [*overrides, *extra])  # plugins add methods
    swept = [read_grid(text, "--sweep") for text in sweeps]
    variants = variants_of(names, swept)
    if stop_after_warmup:
        variants += stopped_variants(names, swept)
    design = Design(recipe, (*overrides, *extra), variants, seeds, folder)
    grid = read_grid(tune, "--tune") if tune else None
    if grid:
        check_keys([*design.swept, grid.key], "--sweep and --tune")
    tries = tuning_specs(design, grid) if grid else []
    chosen = earlier_choice(tries, variants) if grid else None
    final = run_specs(design, chosen, grid=grid)
    check_report(folder, {each.label for each in variants}, {spec.seed for spec in final})
    for spec in [spec for spec in final if spec.chosen and chosen is None][:1]:
        narrate(
            f"note: {spec.folder} was trained with {spec.chosen}: should tuning choose another "
            "value, the comparison needs another --out"
        )
    if baseline not in {name for each in variants for name in (each.label, each.method)}:
        narrate(f"note: the baseline {baseline} is not among the methods: {variants[0].label} is")
    for note in check_problems(tries):
        narrate(f"note: {note}")
    if dry_run:
        wanted = [*tries, *final]
        planned(
            estimate_comparison(wanted, measure_all(wanted, narrate), jobs), jobs, as_json=as_json
        )
        return 0
    with opened(folder):
        return _compare(design, grid, baseline, jobs, threads, as_json=as_json)


def _compare(
    design: Design,
    grid: Grid | None,
    baseline: str,
    jobs: int,
    threads: int | None,
    *,
    as_json: bool,
) -> int:
    """Tune, train, gather and print; 1 where any run failed."""
    from ictcli.compare.design import run_specs, tuning_specs
    from ictcli.compare.finished import read_all
    from ictcli.compare.folder import GOES_ON
    from ictcli.compare.launch import train_all
    from ictcli.compare.tuning import best_overrides, tuning_scores
    from ictcli.console import narrate, observer
    from ictcli.console.compare import comparison, tuned_to
    from ictcli.engine import build_engine
    from ictcli.errors import RunFailedError
    from ictcli.files import write_json
    from ictcli.runs.observer import RunObserver

    def live(recipe: Recipe, path: Path, later: int) -> RunObserver:
        return observer(recipe, path, later, live=not as_json)

    def train(runs: Sequence[RunSpec], later: int = 0) -> tuple[Summaries, list[str]]:
        return train_all(runs, live, narrate, jobs=jobs, threads=threads, later=later)

    failed: list[str] = []
    chosen, tuned = None, None
    if grid:
        tries = tuning_specs(design, grid)
        summaries, failed = train(tries, later=len(design.variants) * design.seeds)
        tuned = tuning_scores(tries, summaries)
        chosen = best_overrides(tuned, design.variants)
        tuned_to(chosen, [each.label for each in design.variants if each.label not in chosen])
    runs = run_specs(design, chosen)
    summaries, missed = train(runs)
    done, damaged = read_all(runs, summaries)
    for line in damaged:
        narrate(f"failed: {line}")
    failed = [*failed, *missed, *damaged]
    if not done:
        raise RunFailedError("Every run of the comparison failed.", f"mend that: {GOES_ON}")
    from ictcli.compare.gather import gather
    from ictcli.compare.report import write_report

    result = gather(
        design,
        runs,
        done,
        build_engine(runs[0].recipe.model, runs[0].recipe.engine),
        baseline=baseline,
        command="ictcli " + shlex.join(sys.argv[1:]),
        tuned=tuned,
        tuning=grid,
        failed=failed,
    )
    write_json(design.folder / "comparison.json", result.model_dump(mode="json"))
    (design.folder / "report.json").unlink(missing_ok=True)  # an older version's
    write_report(result, design.folder)
    comparison(result, design.folder, as_json=as_json)
    return 1 if failed else 0

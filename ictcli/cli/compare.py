"""ictcli compare: methods side by side on the same problems and seeds."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ictcli.cli import candidates, json_option
from ictcli.cli.options import BACKEND, TRUST, engine_settings, process_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ictcli.compare.comparison import Comparison
    from ictcli.compare.finished import FinishedRun
    from ictcli.compare.launch import Summaries
    from ictcli.compare.plan import ComparisonPlan
    from ictcli.compare.study import CompareOptions, Study

    Train = Callable[..., tuple[Summaries, list[str]]]
    """Trains runs: `train_all`, all but the runs and the number of `later` ones given."""


@click.command("compare")
@click.argument("recipe", shell_complete=candidates.recipes_and_studies)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=candidates.settings)
@click.option(
    "--methods",
    default="ict,grpo,entropy20,stapo,random",
    show_default=True,
    shell_complete=candidates.methods,
    help="Methods, with commas between; 'ict score=u*h' is one with a setting.",
)
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="Runs each.")
@click.option("--sweep", multiple=True, metavar="KEY=V,V", help="A setting to vary.")
@click.option("--tune", metavar="KEY=V,V", help="Choose it for every method first, lr say.")
@click.option("--baseline", default="grpo", show_default=True, help="Differences are from this.")
@click.option("--stop-after-warmup", is_flag=True, help="Add runs that end with the warm-up.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 64), help="At a time.")
@BACKEND
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the runs; continued.")
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
    dry_run: bool,
    as_json: bool,
    threads: int | None,
    **options: Any,
) -> int:
    """Train each method on the same problems, seeds and budget, and print them side by side.

    Stop it whenever you like: the same command continues where it was. A study is a comparison on
    several recipes.

    \b
    ictcli compare chain-compare --seeds 3
    ictcli compare chain-compare --sweep method.keep=0.05,0.1,0.2 --jobs 2 --dry-run
    ictcli compare chain-compare --tune lr=1e-4,2e-4,4e-4 --methods ict,grpo,random --seeds 5
    ictcli compare study --jobs 2
    """
    from ictcli.compare.folder import check_kind, opened
    from ictcli.compare.launch import train_all
    from ictcli.compare.plan import plan_of
    from ictcli.compare.study import CompareOptions, read_study
    from ictcli.compare.time_estimate import estimate_comparison, measure_all
    from ictcli.compare.variants import read_methods
    from ictcli.console import narrate, observer
    from ictcli.console.compare import comparison, planned
    from ictcli.files import check_inside
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
        runs = [run for plan in plans for run in plan.runs]
        planned(estimate_comparison(runs, measure_all(runs, narrate), jobs), jobs, as_json=as_json)
        return 0
    watch = partial(observer, live=not as_json)
    train = partial(train_all, observer=watch, say=narrate, jobs=jobs, threads=threads)
    with opened(folder):
        if study:
            return _run_study(plans, folder, train, as_json=as_json)
        result, _ = _compare(plans[0], train)
        comparison(result, folder, as_json=as_json)
        return 1 if result.failed else 0


def _with_typed(study: Study, typed: CompareOptions) -> CompareOptions:
    """The options of a study, but for what was typed on the command line."""
    source = click.get_current_context().get_parameter_source
    on_line = click.core.ParameterSource.COMMANDLINE
    names = {name for name in type(typed).model_fields if source(name) is on_line}
    return study.model_copy(update=typed.model_dump(include=names))


def _run_study(
    plans: Sequence[ComparisonPlan], folder: Path, train: Train, *, as_json: bool
) -> int:
    """One comparison after another, and what all of them found; 1 where any run failed. Its report
    is written once no comparison is left that an earlier command made."""
    from ictcli.compare.folder import opened
    from ictcli.compare.report.study import write_study
    from ictcli.compare.study import run_rows, write_runs
    from ictcli.console import narrate
    from ictcli.console.compare import studied
    from ictcli.errors import NothingFinishedError

    results: dict[str, Comparison] = {}
    rows: list[dict[str, object]] = []
    failed: list[str] = []
    for number, plan in enumerate(plans, 1):
        name = plan.folder.name
        narrate(f"comparison {number}/{len(plans)}: {name}")
        try:
            with opened(plan.folder):
                results[name], done = _compare(plan, train)
        except NothingFinishedError as error:
            if number == len(plans) and not results:
                raise
            failed.append(f"{name}: {error.message}")
            narrate(f"failed: {failed[-1]}")
        else:
            failed += [f"{name}: {line}" for line in results[name].failed]
            rows += run_rows(name, done)
        later = (each.folder / "comparison.json" for each in plans[number:])
        if results and not any(path.exists() for path in later):
            write_runs(folder / "runs.csv", rows)
            write_study(results, folder, [each.folder.name for each in plans])
    studied(results, failed, folder, as_json=as_json)
    return 1 if failed else 0


def _compare(plan: ComparisonPlan, train: Train) -> tuple[Comparison, Sequence[FinishedRun]]:
    """Tune, train, and write the report."""
    from ictcli.compare.began import check_began
    from ictcli.compare.design import run_specs
    from ictcli.compare.finished import read_all
    from ictcli.compare.folder import GOES_ON
    from ictcli.compare.tuning import best_overrides, tuning_scores
    from ictcli.console import narrate
    from ictcli.console.compare import tuned_to
    from ictcli.engine import build_engine
    from ictcli.errors import NothingFinishedError
    from ictcli.files import encodable, write_json

    check_began(plan.runs)
    failed: list[str] = []
    chosen, tuned = None, None
    if plan.grid:
        summaries, failed = train(plan.tries, later=len(plan.final))
        tuned = tuning_scores(plan.tries, summaries)
        chosen = best_overrides(tuned, plan.design.variants)
        labels = [each.label for each in plan.design.variants]
        tuned_to(chosen, [label for label in labels if label not in chosen])
    runs = run_specs(plan.design, chosen)
    summaries, missed = train(runs)
    check_began(runs)  # hours may lie between
    done, damaged = read_all(runs, summaries)
    for line in damaged:
        narrate(f"failed: {line}")
    if not done:
        raise NothingFinishedError("Every run of the comparison failed.", f"mend that: {GOES_ON}")
    from ictcli.compare.gather import gather
    from ictcli.compare.report import write_report

    result = gather(
        plan,
        runs,
        done,
        build_engine(runs[0].recipe.model, runs[0].recipe.engine),
        command=encodable("ictcli " + shlex.join(sys.argv[1:])),
        tuned=tuned,
        failed=[*failed, *missed, *damaged],
    )
    write_json(plan.folder / "comparison.json", result.model_dump(mode="json"))
    (plan.folder / "report.json").unlink(missing_ok=True)  # an older version's
    write_report(result, plan.folder)
    return result, done

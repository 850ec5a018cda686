"""What `ictcli compare` prints: the plan, what tuning chose, and the result."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ictcli.compare.comparison import Comparison
from ictcli.compare.report import lead, study, tables, token_tables, words
from ictcli.compare.report.drawing import Styles, styles_of
from ictcli.compare.time_estimate import ComparisonEstimate, RunEstimate
from ictcli.compare.variants import STOPPED
from ictcli.console.lines import narrate, narrate_paragraph
from ictcli.console.table import print_json, print_noted, print_table
from ictcli.tables import Column, Table
from ictcli.tables.numbers import counted, setting, size_text
from ictcli.text import duration

RUN_COLUMNS = [
    Column[RunEstimate]("run", lambda run: run.folder, str),
    Column[RunEstimate]("method", lambda run: run.label, str),
    Column[RunEstimate]("seed", lambda run: run.seed, setting),
    Column[RunEstimate]("steps", lambda run: run.steps, setting),
    Column[RunEstimate]("lr", lambda run: "by tuning" if run.lr is None else f"{run.lr:g}", str),
    Column[RunEstimate](
        "time", lambda run: "finished" if run.finished else duration(run.seconds), str
    ),
    Column[RunEstimate]("disk", lambda run: "" if run.finished else size_text(run.bytes), str),
]


def planned(estimate: ComparisonEstimate, jobs: int, *, as_json: bool) -> None:
    """The runs with what each will take alone, and what all of them will, as a table or JSON."""
    if as_json:
        print_json({"jobs": jobs, **estimate.model_dump(mode="json")})
        return
    print_table(Table(RUN_COLUMNS, estimate.runs))
    if not estimate.left:
        narrate(f"{len(estimate.runs)} runs, all of them finished.")
        return
    at_once = f", {estimate.at_once} at a time" if estimate.at_once > 1 else ""
    if estimate.at_once < jobs:
        at_once += f" (--jobs {jobs} asks for more than there are cores for)"
    kinds = len(estimate.measured)
    of_each = "one run" if kinds == 1 else f"{kinds} kinds of run"
    narrate_paragraph(
        f"{counted(len(estimate.runs), 'run')}, {estimate.left} of them to do: about "
        f"{duration(estimate.seconds)}{at_once}, and {size_text(estimate.bytes)} of disk; "
        f"from steps of {of_each}, timed now."
    )


def comparison(result: Comparison, folder: Path, *, as_json: bool, details: bool) -> None:
    """A comparison as JSON, or what was reached as a table, and the answer in a few sentences; with
    `details` also what was kept, the differences from the baseline and the verdicts."""
    if as_json:
        print_json(result.model_dump(mode="json"))
        return
    styles, _ = styles_of(result.variants)
    print_noted(tables.summary(result, styles), *(_details(result, styles) if details else ()))
    for line in result.failed:
        narrate(f"failed: {line}")
    for line in result.notes:
        narrate(f"note: {line}")
    narrate_paragraph(lead(result))
    narrate("", f"runs: {folder}", f"report: {folder / 'report.html'}")


def _details(result: Comparison, styles: Styles) -> list[Table]:
    answer: list[Table] = []
    if result.forks:
        answer.append(token_tables.forks(result, styles))
    if result.attribution:
        answer.append(token_tables.gradient(result.attribution, styles))
    if result.tests:
        families = {"": result.differences, ", none crashed": result.differences_without_crashed}
        caption = (
            f"differences from {result.baseline} in points, with 95 % intervals of each; * is "
            f"significant at {100 * result.level:.2g} % after Holm's correction over all"
        )
        answer.append(tables.short_differences(styles, result.baseline, families, caption))
    if greedy := result.differences_greedy:
        chosen = " and at the chosen settings alone" if result.tuned_key else ""
        caption = (
            f"greedy answers, in points: explored, not planned{chosen}; * is after Holm's "
            "correction over these"
        )
        answer.append(tables.short_differences(styles, result.baseline, {"": greedy}, caption))
    if stopped := result.differences_from_stopped:
        caption = "what the steps after the dense warm-up added, in points"
        answer.append(tables.short_differences(styles, STOPPED, {"": stopped}, caption))
    if controls := result.differences_from_method:
        caption = "controls: differences from the same method without, in points"
        answer.append(tables.short_differences(styles, "own method", {"": controls}, caption))
    if result.claims:
        at = f"{counted(len(result.seeds), 'seed')} and {counted(result.problems, 'problem')}"
        caption = (
            f"verdicts on {result.task} at {at}; undecided is no evidence that there is no "
            "difference"
        )
        answer.append(words.verdicts(result.claims, caption))
    return answer


def studied(
    results: Mapping[str, Comparison], failed: Sequence[str], folder: Path, *, as_json: bool
) -> None:
    """A study as JSON, by recipe, or as one table: the first metric of each recipe by rule."""
    if as_json:
        print_json({name: result.model_dump(mode="json") for name, result in results.items()})
        return
    print_noted(study.first_metrics(results))
    for line in failed:
        narrate(f"failed: {line}")
    narrate(f"runs: {folder / 'runs.csv'}", f"report: {folder / 'report.html'}")

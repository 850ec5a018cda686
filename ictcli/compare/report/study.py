"""The report of a study: what each of its comparisons found, side by side.

It repeats no inference: estimates, differences and verdicts are those of the comparisons.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ictcli.compare.claims import Claim
from ictcli.compare.comparison import Comparison, TrainedTokens, VariantRecord
from ictcli.compare.design import slug
from ictcli.compare.numbers import counted, listed, percent, setting
from ictcli.compare.report import document as doc
from ictcli.compare.report import figures
from ictcli.compare.report.contents import resting, rows_of, with_tests
from ictcli.compare.report.html import page
from ictcli.compare.report.markdown import markdown
from ictcli.compare.report.palette import Looks, looks_of, method_table
from ictcli.compare.statistics import BEFORE
from ictcli.files import write_text
from ictcli.text import one_line

Results = Mapping[str, Comparison]
"""By recipe."""


def write_study(results: Results, folder: Path, planned: Sequence[str]) -> None:
    """Write report.html and report.md of a study into `folder`; `planned` names all recipes."""
    report = document(results, planned)
    write_text(folder / "report.html", page(report))
    write_text(folder / "report.md", markdown(report))


def document(results: Results, planned: Sequence[str]) -> doc.Document:
    variants = {each.label: each for result in results.values() for each in result.variants}
    looks, colours = looks_of(list(variants.values()))
    seeds = max(len(result.seeds) for result in results.values())
    missing = [name for name in planned if name not in results]
    lead = f"{counted(len(variants), 'rule')} on {listed(list(results))}, {counted(seeds, 'seed')}."
    if missing:
        lead += f" Without a finished run: {listed(missing)}."
    runs = sum(each.runs for result in results.values() for each in result.variants)
    first = next(iter(results.values()))
    metrics = dict.fromkeys(metric for result in results.values() for metric in result.estimates)
    facts = [("runs", str(runs)), ("command", first.command)]
    facts += [(name, one_line(text)) for name, text in first.versions.items()]
    sections = [
        *(_reached(results, list(variants), looks, metric) for metric in metrics),
        _verdicts(results),
        _kept(results, list(variants), looks),
        _rates(results, variants, looks),
        doc.Section(
            "comparisons",
            "The comparisons",
            [doc.Items([f"{name}/report.html: {result.task}" for name, result in results.items()])],
        ),
    ]
    title = f"Which tokens should be trained? {counted(len(results), 'task')}"
    return doc.Document(title, lead, facts, sections, colours)


def _reached(results: Results, labels: Sequence[str], looks: Looks, metric: str) -> doc.Section:
    """pass@k by rule and recipe, and the differences from each recipe's baseline."""

    def column(name: str) -> doc.Column[str]:
        estimates = results[name].estimates[metric]

        def value(label: str) -> tuple[float | None, doc.Interval | None]:
            each = estimates.get(label)
            return (each.value, (each.low, each.high)) if each else (None, None)

        return doc.interval_column(name, f"{name} {metric}", value, percent)

    caption = f"{metric} after training, %, each with its 95 % interval."
    rows = {label: label for label in (BEFORE, *labels)}
    name = metric.replace("@", "-at-")
    judged = [recipe for recipe, result in results.items() if metric in result.estimates]
    table = method_table(name, caption, looks, [*map(column, judged)], rows)
    panels = [
        figures.forest(metric, rows, result.baseline, looks, title=recipe + which)
        for recipe, result in results.items()
        for which, family in (
            ("", result.differences),
            (", none crashed", result.differences_without_crashed),
        )
        if (rows := family.get(metric))
    ]
    told = (
        f"Differences in {metric} from the baseline, in points, paired by seed and problem, with "
        "95 % intervals; a filled mark is told from 0 after Holm's correction over its recipe."
    )
    figure = [doc.Figure(f"{name}-forest", told, panels)] if panels else []
    return doc.Section(name, metric, [table, *figure])


def _verdicts(results: Results) -> doc.Section:
    """The main claims on each recipe, with their caveats."""
    blocks: list[doc.Block] = []
    judged: list[Claim] = []
    for name, result in results.items():
        main = [each for each in result.claims if each.test and each.test.family == "main"]
        if main:
            blocks += [doc.Text(with_tests(name, main), "family"), rows_of(main)]
        judged += main
    blocks += resting(judged)
    none = "None of the rules that the claims are about was run to its end."
    return doc.Section("verdicts", "Verdicts", blocks or [doc.Text(none, "absent")])


def _kept(results: Results, labels: Sequence[str], looks: Looks) -> doc.Section:
    """What the rules trained, by recipe."""
    blocks: list[doc.Block] = []
    for name, result in results.items():
        columns: list[doc.Column[TrainedTokens]] = [
            doc.column("tokens kept, %", lambda row: row.tokens_kept_share, percent),
            doc.column("forks kept, %", lambda row: row.fork_recall, percent),
            doc.column("of the kept, forks, %", lambda row: row.fork_precision, percent),
            doc.column("mean probability kept", lambda row: row.kept_prob),
        ]
        rows = {label: result.training[label] for label in labels if label in result.training}
        caption = f"{name}: what each rule trained, means over its runs."
        blocks.append(method_table(f"kept-{slug(name)}", caption, looks, columns, rows))
    return doc.Section("kept", "What each rule keeps", blocks)


def _rates(results: Results, variants: Mapping[str, VariantRecord], looks: Looks) -> doc.Section:
    """Learning rates, and the runs that ended."""
    by_recipe = {
        name: {each.label: each for each in result.variants} for name, result in results.items()
    }

    def column(name: str) -> doc.Column[str]:
        records = by_recipe[name]
        return doc.column(
            name, lambda label: records[label].lr if label in records else None, setting
        )

    caption = "Learning rate, tuned for each rule alike where the study tunes it."
    table = method_table(
        "rates", caption, looks, [*map(column, results)], {label: label for label in variants}
    )
    failed = [f"{name}: {line}" for name, result in results.items() for line in result.failed]
    notes = [f"{name}: {line}" for name, result in results.items() for line in result.notes]
    lines = [doc.Items([*failed, *notes])] if failed or notes else []
    return doc.Section("rates", "Learning rates, and notes", [table, *lines])

"""The report of a study: what each of its comparisons found, side by side.

Estimates and differences are those of the comparisons; the verdicts on the study's main question
are corrected once over all of them.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from ictcli.compare.comparison import Claim, Comparison, VariantRecord
from ictcli.compare.design import slug
from ictcli.compare.efficiency import AT_BUDGET, TO_THRESHOLD
from ictcli.compare.report import Kind, figures, page, tables, write_pages
from ictcli.compare.report.drawing import Chart, Styles, styles_of
from ictcli.compare.statistics import BEFORE
from ictcli.tables import Column, Table
from ictcli.tables.numbers import counted, listed, setting

Results = Mapping[str, Comparison]
"""By recipe."""
Claims = Mapping[str, Sequence[Claim]]
"""By recipe those of the main question, corrected over all recipes (`run.study_claims`)."""


def write_study(results: Results, claims: Claims, folder: Path, planned: Sequence[str]) -> None:
    """Write report.html and report.md of a study into `folder`; `planned` names all recipes."""
    write_pages(folder, partial(study_page, results, claims, planned))


def study_page(results: Results, claims: Claims, planned: Sequence[str], kind: Kind) -> str:
    variants = variants_of(results)
    styles, colours = styles_of(variants)
    return page(
        "study.jinja",
        kind,
        title=f"Which tokens should be trained? {counted(len(results), 'task')}",
        study=sys.modules[__name__],
        results=results,
        planned=planned,
        variants=[variant.label for variant in variants],
        claims=[claim for its in claims.values() for claim in its],
        verdicts=claims,
        styles=styles,
        colours=colours,
    )


def variants_of(results: Results) -> list[VariantRecord]:
    """Each variant of any comparison once."""
    every = {each.label: each for result in results.values() for each in result.variants}
    return list(every.values())


def first_metrics(results: Results) -> Table:
    """The first metric of every rule on each recipe."""
    variants = variants_of(results)
    firsts = {name: next(iter(result.estimates)) for name, result in results.items()}
    metrics = list(dict.fromkeys(firsts.values()))
    columns = [tables.method_column(styles_of(variants)[0])]
    for name, metric in firsts.items():
        head = f"{name} {metric}" if len(metrics) > 1 else name
        columns += tables.of(results[name].estimates[metric], tables.estimate_column(name, head))
    labels = [BEFORE, *(variant.label for variant in variants)]
    caption = f"{listed(metrics)} after training, %, with 95 % intervals"
    return Table(columns, labels, "study", caption)


def reached(results: Results, labels: Sequence[str], metric: str, styles: Styles) -> Table:
    columns = [tables.method_column(styles)]
    for name, result in results.items():
        if metric in result.estimates:
            column = tables.estimate_column(f"{name} {metric}", name)
            columns += tables.of(result.estimates[metric], column)
    return Table(columns, [BEFORE, *labels], metric.replace("@", "-at-"))


def forests(results: Results, metric: str, styles: Styles) -> list[Chart]:
    charts: list[Chart] = []
    for name, result in results.items():
        held = result.differences_without_crashed
        for title, family in ((name, result.differences), (f"{name}, none crashed", held)):
            rows = {metric: family.get(metric, {})}
            charts += figures.forests(rows, result.baseline, styles, title)
    return charts


def units(results: Results) -> list[str]:
    """What any comparison was counted in."""
    found = [each.efficiency.units for each in results.values() if each.efficiency]
    return list(dict.fromkeys(unit for its in found for unit in its))


def costs(results: Results, unit: str, labels: Sequence[str], styles: Styles) -> Table:
    """What each rule spent until the threshold, and its accuracy at equal cost, by recipe."""
    columns = [tables.method_column(styles)]
    for name, result in results.items():
        if spent := result.efficiency and result.efficiency.units.get(unit):
            shown = [each for each in (TO_THRESHOLD, AT_BUDGET) if each in spent.figures]
            columns += [tables.spent_column(spent, each, name) for each in shown]
    return Table(columns, labels, f"cost-{slug(unit)}")


def kept(name: str, result: Comparison, labels: Sequence[str], styles: Styles) -> Table:
    """What the rules trained on a recipe."""
    rows = {label: result.training[label] for label in labels if label in result.training}
    return tables.method_table(
        styles, rows, [*tables.KEPT, tables.KEPT_PROBABILITY], name=f"kept-{slug(name)}"
    )


def rates(results: Results, labels: Sequence[str], styles: Styles) -> Table:
    columns = [tables.method_column(styles)]
    for name, result in results.items():
        rates = {each.label: each.lr for each in result.variants}
        columns += tables.of(rates, Column(name, lambda lr: lr, setting))
    return Table(columns, labels, "rates")

"""The report of a study: what each of its comparisons found, side by side.

It repeats no inference: estimates, differences and verdicts are those of the comparisons.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ictcli.compare.claims import Claim
from ictcli.compare.comparison import Comparison, VariantRecord
from ictcli.compare.design import slug
from ictcli.compare.report import KINDS, Kind, page, write_pages
from ictcli.compare.report.drawing import Chart
from ictcli.compare.report.figures import forest
from ictcli.compare.report.palette import Looks, looks_of
from ictcli.compare.report.tables import (
    KEPT,
    KEPT_PROBABILITY,
    estimate_column,
    method_column,
    method_table,
    of,
)
from ictcli.compare.report.verdicts import families
from ictcli.compare.statistics import BEFORE
from ictcli.tables import Column, Table
from ictcli.tables.numbers import counted, listed, setting

Results = Mapping[str, Comparison]
"""By recipe."""


def write_study(results: Results, folder: Path, planned: Sequence[str]) -> None:
    """Write report.html and report.md of a study into `folder`; `planned` names all recipes."""
    html, text = (study_page(results, planned, kind) for kind in KINDS)
    write_pages(folder, html, text)


def study_page(results: Results, planned: Sequence[str], kind: Kind) -> str:
    variants = {each.label: each for result in results.values() for each in result.variants}
    looks, colours = looks_of(list(variants.values()))
    runs = sum(each.runs for result in results.values() for each in result.variants)
    first = next(iter(results.values()))
    return page(
        "study.jinja",
        kind,
        title=f"Which tokens should be trained? {counted(len(results), 'task')}",
        facts=[("runs", str(runs)), ("command", first.command), *first.versions.items()],
        study=sys.modules[__name__],
        results=results,
        variants=list(variants),
        metrics=list(dict.fromkeys(m for result in results.values() for m in result.estimates)),
        seeds=max(len(result.seeds) for result in results.values()),
        missing=[name for name in planned if name not in results],
        looks=looks,
        colours=colours,
    )


def first_metrics(results: Results) -> Table:
    """The first metric of every rule on each recipe."""
    variants = {each.label: each for result in results.values() for each in result.variants}
    looks, _ = looks_of(list(variants.values()))
    firsts = {name: next(iter(result.estimates.items())) for name, result in results.items()}
    metrics = list(dict.fromkeys(metric for metric, _ in firsts.values()))
    heads = {name: f"{name} {m}" if len(metrics) > 1 else name for name, (m, _) in firsts.items()}
    columns = [
        column
        for name, (_, rows) in firsts.items()
        for column in of(rows, estimate_column(heads[name], name))
    ]
    caption = f"{listed(metrics)} after training, %, with 95 % intervals"
    return Table([method_column(looks), *columns], [BEFORE, *variants], "study", caption)


def reached(results: Results, labels: Sequence[str], metric: str, looks: Looks) -> Table:
    """A metric of every rule on each recipe."""
    columns = [
        column
        for name, result in results.items()
        if metric in result.estimates
        for column in of(result.estimates[metric], estimate_column(name, f"{name} {metric}"))
    ]
    caption = f"{metric} after training, %, each with its 95 % interval."
    name = metric.replace("@", "-at-")
    return Table([method_column(looks), *columns], [BEFORE, *labels], name, caption)


def forests(results: Results, metric: str, looks: Looks) -> list[Chart]:
    """The differences from each recipe's baseline."""
    return [
        forest(metric, rows, result.baseline, looks, title=recipe + which)
        for recipe, result in results.items()
        for which, family in (
            ("", result.differences),
            (", none crashed", result.differences_without_crashed),
        )
        if (rows := family.get(metric))
    ]


def main_claims(results: Results) -> list[Claim]:
    every = [claim for result in results.values() for claim in result.claims]
    return [claim for claim in every if claim.test and claim.test.family == "main"]


def main_family(name: str, result: Comparison) -> list[Table]:
    """The verdicts on the main claims of a recipe."""
    return [replace(each, caption=name) for each in families(result.claims, ["main"])]


def kept(name: str, result: Comparison, labels: Sequence[str], looks: Looks) -> Table:
    """What the rules trained on a recipe."""
    rows = {label: result.training[label] for label in labels if label in result.training}
    caption = f"{name}: what each rule trained, means over its runs."
    columns = [*KEPT, KEPT_PROBABILITY]
    return method_table(looks, rows, columns, name=f"kept-{slug(name)}", caption=caption)


def rates(results: Results, labels: Sequence[str], looks: Looks) -> Table:
    columns = [
        column
        for name, result in results.items()
        for column in of(
            {each.label: each for each in result.variants},
            Column[VariantRecord](name, lambda row: row.lr, setting),
        )
    ]
    caption = "Learning rate, tuned for each rule alike where the study tunes it."
    return Table([method_column(looks), *columns], labels, "rates", caption)


def notes(results: Results) -> list[str]:
    """The runs that failed, then what is to know."""
    failed = [f"{name}: {line}" for name, result in results.items() for line in result.failed]
    return failed + [f"{name}: {line}" for name, result in results.items() for line in result.notes]

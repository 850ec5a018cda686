"""The tables of a comparison, in the report and in the terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

from ictcli.compare.comparison import CURVES, Comparison, Cost, Curve, TrainedTokens, VariantRecord
from ictcli.compare.differences import Contrast
from ictcli.compare.report.drawing import Styles
from ictcli.compare.statistics import PairedDifference
from ictcli.compare.tuning import METRIC, in_order
from ictcli.tables import Cell, Column, Span, Table, text_table
from ictcli.tables.numbers import (
    interval,
    p_value,
    percent,
    points,
    rounded,
    setting,
    size_text,
    whole,
)

R = TypeVar("R")


class DifferenceRow(NamedTuple):
    metric: str
    contrast: Contrast
    difference: PairedDifference


KEPT = [
    Column[TrainedTokens]("tokens kept, %", lambda row: row.tokens_kept_share, percent),
    Column[TrainedTokens]("mean p of kept tokens", lambda row: row.kept_prob),
    Column[TrainedTokens]("branches kept, %", lambda row: row.branch_recall, percent),
]
COST = [
    Column[Cost]("seconds a step", lambda cost: cost.seconds_per_step),
    Column[Cost]("sampling, s", lambda cost: cost.sample_s),
    Column[Cost]("update, s", lambda cost: cost.update_s),
    Column[Cost]("peak memory", lambda cost: cost.peak_bytes, size_text),
]


def by_method(
    styles: Styles, rows: Mapping[str, R], columns: Sequence[Column[R]], name: str = ""
) -> Table:
    """Return a table with a row for each variant; `rows` holds a record by label."""

    def first(label: str) -> Cell:
        return Cell(styles[label].label, colour=styles[label].colour)

    return Table([Column("method", first, str), *of(rows, *columns)], list(rows), name)


def of(rows: Mapping[str, R], *columns: Column[R]) -> list[Column[str]]:
    """Return the columns for a table of labels; the cells of labels not in `rows` are empty."""

    def labelled(column: Column[R]) -> Column[str]:
        def value(label: str) -> Any:
            return column.value(rows[label]) if label in rows else None

        return replace(cast(Column[Any], column), value=value)

    return [labelled(column) for column in columns]


def summary(c: Comparison, styles: Styles) -> Table:
    """Return a table of every variant's scores, trained tokens and seconds per step."""
    rows = next(iter(c.estimates.values()))
    seeds = Column[Any]("seeds", lambda row: row.seeds, whole)
    columns = [*by_method(styles, rows, [seeds]).columns]
    for metric, estimates in c.estimates.items():
        column = Column[Any](f"{metric}, %", lambda row: row, percent, bounded=True)
        columns += of(estimates, column)
    columns += of(c.training, *KEPT) + of(c.cost, COST[0])
    over = "seeds and problems" if len(c.seeds) > 1 else "problems"
    caption = f"means with 95 % intervals over {over}"
    return Table(columns, list(rows), "summary", caption)


def difference_rows(c: Comparison) -> list[DifferenceRow]:
    return [
        DifferenceRow(metric, contrast, rows[contrast.name])
        for metric, rows in c.differences.items()
        for contrast in c.contrasts
        if contrast.name in rows
    ]


def differences(c: Comparison, *, tests: bool = True) -> Table:
    """Return a table of differences in points with intervals; `tests` adds columns on the tests."""

    def corrected(row: DifferenceRow) -> str | None:
        return interval(row.difference.low_holm, row.difference.high_holm, points) or None

    def figure(head: str, name: str, form: Any) -> Column[DifferenceRow]:
        return Column(head, lambda row: getattr(row.difference, name), form)

    columns = [
        Column[DifferenceRow]("metric", lambda row: row.metric, str),
        Column[DifferenceRow]("difference", lambda row: row.contrast.text, str),
        Column[DifferenceRow]("points", lambda row: row.difference, points, bounded=True),
        figure("p, Holm", "p_holm", p_value),
    ]
    if tests:
        columns += [
            Column[DifferenceRow]("corrected interval", corrected, str),
            figure("p", "p", p_value),
            figure("detectable", "detectable_holm", percent),
            figure("seeds", "seeds", whole),
        ]
    caption = "differences in points with 95 % intervals; * is significant after Holm's correction"
    return Table(columns, difference_rows(c), "differences", caption)


def last_step(drawn: Mapping[str, Mapping[str, Curve]], styles: Styles, *, several: bool) -> Table:
    """Return a table of the metrics at the last step; with `several` seeds it shows the range."""

    def last(row: Curve) -> Span | float:
        return Span(row.mean[-1], row.low[-1], row.high[-1]) if several else row.mean[-1]

    labels = dict.fromkeys(label for rows in drawn.values() for label in rows)
    columns: list[Column[str]] = []
    for name, rows in drawn.items():
        form = percent if name == "share_kept" else rounded
        columns += of(rows, Column(CURVES[name], last, form, bounded=several))
    return Table([*by_method(styles, labels, []).columns, *columns], list(labels), "last-step")


def tuning(c: Comparison, styles: Styles) -> Table:
    """Return a table of the mean score of each value that was tried in tuning."""
    tuned = {variant.label: variant for variant in c.variants if variant.tuned}
    values = in_order(dict.fromkeys(value for v in tuned.values() for value in v.tuned or {}))

    def column(override: str) -> Column[VariantRecord]:
        def value(row: VariantRecord) -> float | None:
            scores = (row.tuned or {}).get(override, {})
            return scores.get(METRIC, next(iter(scores.values()), None))

        return Column(f"{override}, %", value, percent)

    columns = [column(override) for override in values]
    chosen = Column[VariantRecord]("chosen", lambda row: row.chosen, str)
    return by_method(styles, tuned, [*columns, chosen], name="tuning")


def methods(c: Comparison) -> Table:
    columns = [
        Column[VariantRecord]("label", lambda row: row.label, str),
        Column[VariantRecord]("tokens trained", lambda row: row.summary, str),
        Column[VariantRecord]("source", lambda row: row.source, str),
        Column[VariantRecord]("settings", lambda row: " ".join(row.overrides) or None, str),
        Column[VariantRecord]("lr", lambda row: row.lr, setting),
        Column[VariantRecord]("runs", lambda row: row.runs, whole),
        Column[VariantRecord]("failed", lambda row: row.failed, whole),
    ]
    return Table(columns, c.variants, "methods")


def versions(c: Comparison) -> Table:
    device = {f"device: {key}": value for key, value in c.device.items() if value}
    lines = {**c.versions, **device}.items()
    rows = [{"name": key, "value": f"{of:,}" if type(of) is int else of} for key, of in lines]
    return text_table(rows, name="versions")

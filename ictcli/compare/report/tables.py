"""What was reached, as tables with a row for each variant: for pages and the terminal alike."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from ictcli.compare.comparison import CURVES, Comparison, Cost, Curve, TrainedTokens
from ictcli.compare.design import slug
from ictcli.compare.efficiency import TO_THRESHOLD, Spending
from ictcli.compare.report.drawing import Styles
from ictcli.compare.statistics import Estimate, PairedDifference
from ictcli.tables import Cell, Column, Span, Table
from ictcli.tables.numbers import (
    change,
    interval,
    p_value,
    percent,
    points,
    rounded,
    size_text,
    whole,
)

R = TypeVar("R")
NONE_SEEN = "none seen"


def method_column(styles: Styles, head: str = "method") -> Column[str]:
    """The first column of a table whose rows are labels of variants."""

    def cell(label: str) -> Cell:
        look = styles[label]
        return Cell(look.label, (look.label,), colour=look.colour)

    return Column(head, cell, str)


def of(rows: Mapping[str, R], *columns: Column[R]) -> list[Column[str]]:
    """Columns of records as columns of their labels, absent where a label has no record."""

    def value(column: Column[R], label: str) -> Any:
        return column.value(rows[label]) if label in rows else None

    labelled = [replace(each, value=partial(value, each)) for each in columns]
    return cast(list[Column[str]], labelled)


def method_table(
    styles: Styles, rows: Mapping[str, R], columns: Sequence[Column[R]], **about: str
) -> Table:
    return Table([method_column(styles), *of(rows, *columns)], list(rows), **about)


def estimate_column(name: str, head: str) -> Column[Estimate]:
    return Column(head, lambda row: row, percent, name=name, bounded=True)


def accuracy(comparison: Comparison, styles: Styles) -> Table:
    estimates = comparison.estimates
    rows = next(iter(estimates.values()))

    def over_seeds(sd: float) -> str:
        return percent(sd) if sd > 0 else NONE_SEEN

    columns = [method_column(styles), *of(rows, Column("seeds", lambda row: row.seeds, whole))]
    for metric, its in estimates.items():
        columns += of(its, estimate_column(metric, f"{metric}, %"))
    columns += of(rows, Column("sd of the seeds' means", lambda row: row.means_sd, percent))
    columns += of(rows, Column("sd over seeds", lambda row: row.seed_sd, over_seeds))
    return Table(columns, list(rows), "accuracy")


KEPT = [
    Column[TrainedTokens]("tokens kept, %", lambda row: row.tokens_kept_share, percent),
    Column[TrainedTokens]("forks kept, %", lambda row: row.fork_recall, percent),
    Column[TrainedTokens]("of the kept, forks, %", lambda row: row.fork_precision, percent),
]
KEPT_PROBABILITY = Column[TrainedTokens]("mean probability kept", lambda row: row.kept_prob)
COST = [
    Column[Cost]("seconds a step", lambda cost: cost.seconds_per_step, name="seconds_per_step"),
    Column[Cost]("sampling, s", lambda cost: cost.sample_s, name="sample_s"),
    Column[Cost]("update, s", lambda cost: cost.update_s, name="update_s"),
    Column[Cost]("peak memory", lambda cost: cost.peak_bytes, size_text, name="peak_bytes"),
]


def summary(comparison: Comparison, styles: Styles) -> Table:
    """Accuracy, what was trained and the time of a step, of every variant."""
    table = accuracy(comparison, styles)
    reached = [column for column in table.columns if not column.head.startswith("sd")]
    has_forks = any(each.fork_recall is not None for each in comparison.training.values())
    kept = of(comparison.training, *(KEPT if has_forks else KEPT[:1]))
    seconds = of(comparison.cost, COST[0])
    over = "seeds and problems" if len(comparison.seeds) > 1 else "problems: one seed says nothing"
    warms_up = any(each.dense_steps for each in comparison.training.values())
    caption = f"means with 95 % intervals over {over}"
    caption += "; forks: recall and precision while training" * has_forks
    caption += ", after the dense warm-up" * (has_forks and warms_up)
    return Table([*reached, *kept, *seconds], table.rows, "summary", caption)


def corrected_ends(row: PairedDifference) -> str | None:
    """The interval at the level of Holm's correction."""
    return interval(row.low_holm, row.high_holm, points) or None


def differences(
    name: str, caption: str, styles: Styles, families: Mapping[str, Mapping[str, PairedDifference]]
) -> list[Table]:
    """A table for each metric of a family of tests."""
    every = [each for rows in families.values() for each in rows.values()]
    family = sum(each.p_holm is not None for each in every)
    columns: list[Column[PairedDifference]] = [
        Column("p", lambda row: row.p, p_value),
        Column(f"p, Holm over {family}", lambda row: row.p_holm, p_value, name="p_holm"),
        Column("p by swaps", lambda row: row.p_swap, p_value, name="p_swap"),
        Column("its floor", lambda row: row.p_swap_least, p_value, name="p_swap_least"),
        Column("corrected interval", corrected_ends, str, name="interval_holm"),
        Column("equal within", lambda row: row.equal_within, percent),
        Column("detectable", lambda row: row.detectable, percent),
        Column("corrected", lambda row: row.detectable_holm, percent, name="detectable_holm"),
        Column("seeds", lambda row: row.seeds, whole),
    ]
    shown: list[Table] = []
    for metric, rows in families.items():
        about = {"name": f"{name}-{metric}", "caption": f"{metric}{caption}"}
        first = difference_column(metric, "difference")
        shown += [method_table(styles, rows, [first, *columns], **about)] if rows else []
    return shown


def difference_column(metric: str, head: str) -> Column[PairedDifference]:
    return Column(head, lambda row: row, points, name=f"{metric} difference", bounded=True)


def by_model(comparison: Comparison, styles: Styles) -> Table:
    """The first metric of the runs of each base model, and its differences from the baseline."""
    metric, labels = next(iter(comparison.estimates.items()))
    columns = [method_column(styles)]
    for model, its in comparison.by_model.items():
        name, head = f"{model} {metric}", f"{model}: {metric}, %"
        columns += of(its.estimates, estimate_column(name, head))
        columns += of(its.differences, difference_column(model, f"minus {comparison.baseline}"))
    return Table(columns, list(labels), "by-model")


def short_differences(
    styles: Styles,
    base: str,
    families: Mapping[str, Mapping[str, Mapping[str, PairedDifference]]],
    caption: str,
) -> Table:
    """Differences from a variant by metric and family, without the tests. The name of a family
    stands after the metric's."""
    labels: dict[str, None] = {}
    columns: list[Column[str]] = []
    for name, family in families.items():
        for metric, rows in family.items():
            labels |= dict.fromkeys(rows)
            columns += of(rows, difference_column(metric, metric + name))
    first = method_column(styles, f"minus {base}")
    return Table([first, *columns], list(labels), "differences", caption)


def spending(comparison: Comparison, unit: str, styles: Styles) -> Table:
    """What was reached for what was spent in a unit, with the differences from the baseline."""
    assert comparison.efficiency
    spent = comparison.efficiency.units[unit]
    runs = {each.label: each.runs for each in comparison.variants}
    columns = of(spent.step, Column("a step", lambda value: value))
    if spent.reached:
        reached = {label: f"{count} of {runs[label]}" for label, count in spent.reached.items()}
        columns += of(reached, Column("reached", lambda text: text, str))
    for name, figure in spent.figures.items():
        form = change if name == TO_THRESHOLD else points
        csv = f"{name} difference"
        column = Column[Span]("difference", lambda row: row, form, name=csv, bounded=True)
        columns += [spent_column(spent, name), *of(figure.differences, column)]
    return Table([method_column(styles), *columns], list(spent.step), f"spent-{slug(unit)}")


def spent_column(spent: Spending, figure: str, name: str = "") -> Column[str]:
    """A figure of what was spent, by variant; one that no run reached took more than the budget.
    `name`: what stands before the head."""
    is_threshold = figure == TO_THRESHOLD

    def value(label: str) -> Span | Cell | None:
        span = spent.figures[figure].values.get(label)
        if span and is_threshold and not spent.reached[label]:
            return Cell(f"over {rounded(span.value)}", (None, span.value, None))
        return span

    head = f"{name} {figure}".strip()
    form = rounded if is_threshold else percent
    return Column(head + ", %" * (not is_threshold), value, form, name=head, bounded=True)


def passk(comparison: Comparison, styles: Styles) -> Table:
    def column(k: int) -> Column[Mapping[int, float]]:
        return Column(f"k = {k}", lambda row: row.get(k), percent, name=f"pass@{k}")

    curves = comparison.passk
    columns = [column(k) for k in sorted({k for curve in curves.values() for k in curve})]
    return method_table(styles, curves, columns, name="passk")


def last_step(drawn: Mapping[str, Mapping[str, Curve]], styles: Styles, *, several: bool) -> Table:
    """Curves at the last step, of `several` seeds with the smallest and the largest."""
    columns: list[Column[str]] = []
    labels: dict[str, None] = {}

    def last(row: Curve) -> Span | float:
        return Span(row.mean[-1], row.low[-1], row.high[-1]) if several else row.mean[-1]

    for name, rows in drawn.items():
        form = percent if name == "share_kept" else rounded
        columns += of(rows, Column(CURVES[name][1], last, form, name=name, bounded=several))
        labels |= dict.fromkeys(rows)
    return Table([method_column(styles), *columns], list(labels), "last-step")

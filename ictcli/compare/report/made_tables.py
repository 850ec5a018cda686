"""How a comparison was made, as tables: tuning, methods, versions, and the paper's numbers."""

from collections.abc import Iterable, Mapping

from ictcli.compare.comparison import Comparison, VariantRecord
from ictcli.compare.report.drawing import Styles
from ictcli.compare.report.tables import method_table
from ictcli.compare.variants import numbers_of
from ictcli.tables import Column, Span, Table, text_table
from ictcli.tables.numbers import percent, setting, whole


def tuning(comparison: Comparison, styles: Styles) -> Table:
    tuned = {each.label: each for each in comparison.variants if each.tuned}
    tried = [scores for each in tuned.values() for scores in (each.tuned or {}).items()]
    settings = _ordered(override for override, _ in tried)
    metrics = list(dict.fromkeys(metric for _, scores in tried for metric in scores))

    def column(override: str, metric: str) -> Column[VariantRecord]:
        def value(row: VariantRecord) -> float | None:
            return (row.tuned or {}).get(override, {}).get(metric)

        return Column(f"{override}: {metric}, %", value, percent, name=f"{override} {metric}")

    columns = [column(override, metric) for override in settings for metric in metrics]
    chosen = Column[VariantRecord]("chosen", lambda row: row.chosen, str)
    return method_table(styles, tuned, [*columns, chosen], name="tuning")


def _ordered(overrides: Iterable[str]) -> list[str]:
    """Each once, by its value where all are numbers."""
    settings = list(dict.fromkeys(overrides))
    numbers = numbers_of(settings) or {}
    return sorted(settings, key=lambda each: numbers.get(each, 0))


def tuning_curve(comparison: Comparison, styles: Styles) -> Table:
    """The smooth curve of each method, and what the choice adds to its intervals."""
    tuned = {each.label: each for each in comparison.variants if each.tuned_curve}
    settings = _ordered(key for each in tuned.values() for key in each.tuned_curve)

    def column(override: str) -> Column[VariantRecord]:
        def value(row: VariantRecord) -> Span | None:
            return Span(*row.tuned_curve[override]) if override in row.tuned_curve else None

        return Column(f"{override}, %", value, percent, name=override, bounded=True)

    def runs(row: VariantRecord) -> str:
        return ", ".join(str(row.tuned_runs[each]) for each in settings if each in row.tuned_runs)

    first = next(iter(next(iter(tuned.values())).tuned_sd), "")
    columns = [
        *map(column, settings),
        Column[VariantRecord]("runs of each", runs, str, name="runs"),
        Column[VariantRecord]("sd of the choice", lambda row: row.tuned_sd.get(first), percent),
    ]
    return method_table(styles, tuned, columns, name="tuning-curve")


def paper(comparison: Comparison) -> Table:
    assert comparison.paper
    rows = comparison.paper.rows
    benchmarks = list(dict.fromkeys(key for row in rows for key in row if key != "method"))

    def theirs(name: str) -> Column[Mapping[str, str]]:
        return Column(name, lambda row: row.get(name), str, name=f"paper {name}")

    def ours(metric: str) -> Column[Mapping[str, str]]:
        def value(row: Mapping[str, str]) -> float | None:
            estimate = comparison.estimates[metric].get(row["method"])
            return estimate.value if estimate else None

        return Column(f"ours: {metric}, %", value, percent, name=f"ours {metric}")

    method = Column[Mapping[str, str]]("method", lambda row: row["method"], str)
    columns = [method, *map(theirs, benchmarks), *map(ours, comparison.estimates)]
    return Table(columns, rows, "paper")


def methods(comparison: Comparison) -> Table:
    columns = [
        Column[VariantRecord]("label", lambda row: row.label, str),
        Column[VariantRecord]("method", lambda row: row.method, str),
        Column[VariantRecord]("tokens trained", lambda row: row.summary, str, name="summary"),
        Column[VariantRecord]("source", lambda row: row.source, str),
        Column[VariantRecord](
            "settings", lambda row: " ".join(row.overrides) or None, str, name="overrides"
        ),
        Column[VariantRecord]("lr", lambda row: row.lr, setting),
        Column[VariantRecord]("runs", lambda row: row.runs, whole),
        Column[VariantRecord]("failed", lambda row: row.failed, whole),
    ]
    return Table(columns, comparison.variants, "methods")


def versions(comparison: Comparison) -> Table:
    device = {f"device: {key}": value for key, value in comparison.device.items() if value}
    known = {**comparison.versions, **device}.items()
    return text_table(
        [{"name": key, "value": f"{of:,}" if type(of) is int else of} for key, of in known],
        name="versions",
    )

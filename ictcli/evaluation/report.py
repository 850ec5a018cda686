"""The report of an evaluation: its tables, and results.md."""

from collections.abc import Sequence
from pathlib import Path

from ictcli.evaluation.results import Result, metrics_of
from ictcli.tables import Column, Table
from ictcli.tables.numbers import signed, thousandths, whole
from ictcli.tables.pages import render

Results = Sequence[Result]

LABELS = [
    Column[Result]("model", lambda result: result.name, str),
    Column[Result]("benchmark", lambda result: result.benchmark, str),
]
COSTS = [
    Column[Result]("truncated", lambda result: result.truncated, "{:.1%}".format),
    Column[Result]("unparsed", lambda result: result.unparsed, "{:.1%}".format),
    Column[Result]("timed out", lambda result: result.timed_out, "{:.1%}".format),
    Column[Result]("tokens", lambda result: result.tokens, whole),
    Column[Result]("seconds", lambda result: result.seconds, "{:.1f}".format),
]
SPEED = Column[Result]("tokens/s", lambda result: result.tokens_per_second or 0, "{:,.0f}".format)


def across(results: Results, *columns: Column[Result]) -> Table:
    """A row per model and benchmark."""
    return Table([*LABELS, *columns], results)


def down(results: Results, columns: Sequence[Column[Result]], value: str = "value") -> Table:
    """A row per model, benchmark and column."""
    rows = [(result, column) for result in results for column in columns]

    def label(column: Column[Result]) -> Column[tuple[Result, Column[Result]]]:
        """Shown in the first row of each result."""
        first = columns[0]
        return Column(column.head, lambda row: column.value(row[0]) * (row[1] is first), str)

    metric = Column[tuple[Result, Column[Result]]]("metric", lambda row: row[1].head, str)
    cell = Column[tuple[Result, Column[Result]]](value, lambda row: row[1].cell(row[0]))
    return Table([*map(label, LABELS), metric, cell], rows)


def scores(results: Results) -> list[Column[Result]]:
    """A column per metric."""

    def column(name: str) -> Column[Result]:
        return Column(name, lambda result: result.scores[name], thousandths, bounded=True)

    return [column(name) for name in metrics_of(results)]


def score_tables(results: Results) -> list[Table]:
    """Of the scores: for a wide terminal and for a narrow one."""
    return [across(results, *scores(results)), down(results, scores(results))]


def cost_tables(results: Results) -> list[Table]:
    """Of the costs, the same."""
    return [
        across(results, *COSTS, SPEED),
        across(results, *COSTS),
        down(results, COSTS),
    ]


def whole_table(results: Results) -> Table:
    """Scores and costs."""
    return across(results, *scores(results), *COSTS)


def differences(results: Results) -> Table | None:
    """A row per model, benchmark and metric: the difference from the first model. None if there is
    one model."""

    def column(name: str) -> Column[Result]:
        return Column(
            name,
            lambda result: result.difference and result.difference.scores[name],
            signed,
            bounded=True,
        )

    others = [result for result in results if result.difference]
    columns = [column(name) for name in metrics_of(results)]
    return down(others, columns, f"minus {results[0].name}") if others else None


def caption(results: Results) -> str:
    """Sample sizes, temperature and intervals, in a sentence or two."""
    sizes = {result.benchmark: result.problems for result in results}
    counts = ", ".join(
        f"{size} problems" if len(sizes) == 1 else f"{size} of {name}"
        for name, size in sizes.items()
    )
    heat = dict.fromkeys(f"{result.settings.temperature:g}" for result in results)
    text = (
        f"{counts}, {results[0].n} samples each, temperature {' and '.join(heat)}; "
        "95 % intervals over problems."
    )
    if any(result.difference for result in results):
        text += " Differences are paired by problem; * where 0 is outside the interval."
    return text


def results_page(results: Results) -> str:
    """results.md: the tables, then the settings of each result."""
    return render(
        Path(__file__).with_name("results.md.jinja"),
        "md",
        results=results,
        scores=whole_table(results),
        differences=differences(results),
        caption=caption(results),
    )

"""The report of an evaluation: its tables, and results.md."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ictcli.evaluation.passk import Difference
from ictcli.evaluation.record import AtTemperature, Evaluation, Result
from ictcli.tables import Column, Table, score_columns
from ictcli.tables.numbers import points, setting, shown_share, whole
from ictcli.tables.pages import render, sentence

Results = Sequence[Result]
Row = tuple[Result, AtTemperature]

LABELS = [
    Column[Result]("model", lambda result: result.name, str),
    Column[Result]("benchmark", lambda result: result.benchmark, str),
]
COSTS = [
    Column[Result]("truncated", lambda result: result.truncated, shown_share),
    Column[Result]("unparsed", lambda result: result.unparsed, shown_share),
    Column[Result]("correct of readable", lambda row: row.accuracy_readable, shown_share),
    Column[Result]("timed out", lambda result: result.timed_out, shown_share),
    Column[Result]("tokens", lambda result: result.tokens, whole),
]


def metrics_of(results: Sequence[Evaluation]) -> list[str]:
    """Return the names of the scores that any result has, in order: pass@K, maj@N, greedy."""
    names = dict.fromkeys(name for result in results for name in result.scores)
    return [name for name in names if any(result.scores.get(name) for result in results)]


def reached(results: Results) -> Table:
    """Return a table of scores and costs, with a row per model and benchmark."""
    scores: list[Column[Result]] = score_columns(metrics_of(results), lambda row: row.scores)
    return Table([*LABELS, *scores, *COSTS], results)


def differences(results: Results) -> Table | None:
    """Return a table of later models' scores minus those of the first; None for only one model."""
    others = [result for result in results if result.difference]
    model = replace(LABELS[0], head=f"minus {results[0].name}")

    def minus(result: Result) -> Mapping[str, Difference | None]:
        return result.difference.scores if result.difference else {}

    scores = score_columns(metrics_of(results), minus, points)
    return Table([model, LABELS[1], *scores], others) if others else None


def by_temperature(results: Results) -> Table | None:
    """Return a table of pass@1 with a row per result and temperature. None if there are no
    temperatures besides 0 and the main one of each result, which the table of scores shows."""
    rows = [(result, at) for result in results for at in result.curve]
    columns = [
        Column[Row]("model", lambda row: row[0].name, str),
        Column[Row]("benchmark", lambda row: row[0].benchmark, str),
        Column[Row]("temperature", lambda row: row[1].temperature, setting),
        Column[Row]("samples", lambda row: row[1].n, whole),
        Column[Row]("pass@1", lambda row: row[1].scores.get("pass@1"), shown_share, bounded=True),
    ]
    further = any(at.temperature for result in results for at in result.temperatures)
    return Table(columns, rows) if further else None


def caption(results: Results) -> str:
    """Return a caption: numbers of problems and samples, temperature, verifiers, intervals."""
    judges = dict.fromkeys(result.settings.verifier.rpartition(":")[2] for result in results)
    return sentence(Path(__file__).with_name("caption.jinja"), results=results, judges=judges)


def results_page(results: Results) -> str:
    """Return results.md: the tables, then the settings of each result."""
    return render(
        Path(__file__).with_name("results.md.jinja"),
        "md",
        results=results,
        scores=reached(results),
        differences=differences(results),
        temperatures=by_temperature(results),
        caption=caption(results),
    )

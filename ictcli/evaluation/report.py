"""The report of an evaluation: tables as text that fits a width, and results.md."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ictcli.evaluation.passk import Interval
from ictcli.evaluation.results import Result, metrics_of
from ictcli.text import markdown_block, markdown_code, markdown_text

GAP = 2
FIGURES = re.compile(r"[-+*\d., %\[\]]*")
"""A cell of numbers, which no markup is made of."""
Results = Sequence[Result]
Columns = Mapping[str, Callable[[Result], str]]
"""By title of the column: the text of its cell for a result."""

LABELS: Columns = {
    "model": lambda result: result.name,
    "benchmark": lambda result: result.benchmark,
}
COSTS: Columns = {
    "truncated": lambda result: f"{result.truncated:.1%}",
    "unparsed": lambda result: f"{result.unparsed:.1%}",
    "timed out": lambda result: f"{result.timed_out:.1%}",
    "tokens": lambda result: f"{result.tokens:,}",
    "seconds": lambda result: f"{result.seconds:.1f}",
}
SPEED: Columns = {"tokens/s": lambda result: f"{result.tokens_per_second or 0:,.0f}"}


class Folded(str):
    """A cell of several lines."""


@dataclass(frozen=True)
class TextTable:
    """Column titles, and rows of cells."""

    columns: list[str]
    rows: list[list[str]]

    @property
    def width(self) -> int:
        """In characters, with the gaps between columns."""
        return sum(
            max(len(line) for cell in column for line in cell.split("\n")) + GAP
            for column in zip(self.columns, *self.rows, strict=True)
        ) - (GAP if self.columns else 0)


def first_fitting(tables: Sequence[TextTable], width: int | None) -> TextTable:
    """The first table of at most `width` characters, else the last. None: any width fits."""
    return next((t for t in tables if width is None or t.width <= width), tables[-1])


def interval(
    score: Interval | dict[str, float] | None, *, folded: bool = False, sign: str = ""
) -> str:
    """`0.312 [0.280, 0.344]`, or on two lines; `-` where there is none."""
    if score is None:
        return "-"
    parts = score if isinstance(score, dict) else score.json()
    value, low, high = (f"{parts[key]:{sign}.3f}" for key in ("value", "low", "high"))
    return Folded(f"{value}\n{low}-{high}") if folded else f"{value} [{low}, {high}]"


def scores(results: Results, *, folded: bool = False) -> Columns:
    """A column per metric."""
    return {
        name: lambda result, name=name: interval(result.scores[name], folded=folded)
        for name in metrics_of(results)
    }


def across(results: Results, *columns: Columns) -> TextTable:
    """A row per model and benchmark."""
    cells = {name: cell for part in (LABELS, *columns) for name, cell in part.items()}
    return TextTable(list(cells), [[cell(result) for cell in cells.values()] for result in results])


def down(results: Results, columns: Columns, value: str = "value") -> TextTable:
    """A row per model, benchmark and column."""
    rows: list[list[str]] = []
    for result in results:
        labels = [label(result) for label in LABELS.values()]
        for name, cell in columns.items():
            rows.append([*labels, name, cell(result)])
            labels = [""] * len(LABELS)
    return TextTable([*LABELS, "metric", value], rows)


def whole(results: Results) -> TextTable:
    return across(results, scores(results), COSTS)


def fitting(results: Results, width: int | None) -> list[TextTable]:
    """One table if it fits into `width` characters (None: any does), else scores and costs."""
    if width is None or whole(results).width <= width:
        return [whole(results)]
    plain, folded = scores(results), scores(results, folded=True)
    score_tables = [across(results, plain), across(results, folded), down(results, plain)]
    cost_tables = [across(results, COSTS, SPEED), across(results, COSTS), down(results, COSTS)]
    return [first_fitting(score_tables, width), first_fitting(cost_tables, width)]


def differences(results: Results) -> TextTable | None:
    """A row per model, benchmark and metric: the difference from the first model, with `*` where
    its interval excludes 0. None if there is one model."""

    def cell(result: Result, metric: str) -> str:
        score = result.difference and result.difference.scores[metric]
        return interval(score or None, sign="+") + (" *" if score and score.differs else "")

    others = [result for result in results if result.difference]
    columns: Columns = {
        name: lambda result, name=name: cell(result, name) for name in metrics_of(results)
    }
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


def markdown(results: Results) -> str:
    """results.md: the tables, then the settings of each result."""
    parts = ["# Evaluation", _table(whole(results))]
    if (table := differences(results)) is not None:
        parts += ["## Differences", _table(table)]
    parts += [markdown_text(caption(results)), "## How"]
    for result in results:
        how = result.settings
        stops = ", ".join(map(markdown_code, how.stop.values()))
        own = how.template == "own"
        template = markdown_code(how.prompt["template"]) if own else markdown_text(how.template)
        pattern = f", answer pattern {markdown_code(how.pattern)}" if how.pattern else ""
        source = "".join(f", {key} {value}" for key, value in how.source.items())
        engine = (
            f"ictcli {how.ictcli}, {how.engine.get('engine', 'an engine')} on "
            f"{how.engine.get('device', '-')}, {how.engine.get('dtype', '-')}; model "
            f"{(how.fingerprint or '-')[:12]}"
        )
        lines = [
            f"**{markdown_text(result.name)}, {markdown_text(result.benchmark)}**: "
            f"{result.problems} problems{markdown_text(source)}",
            "",
            f"- n {result.n}, seed {how.seed}, temperature {how.temperature:g}, top-p "
            f"{how.top_p:g}, top-k {how.top_k}, at most {how.max_tokens} tokens",
            f"- template: {template}; stops at {stops or 'nothing'}",
            f"- verifier {markdown_text(how.verifier)}{pattern}, {how.timeout:g} s an answer",
            f"- {markdown_text(engine)}",
            *(f"- {markdown_text(note)}" for note in result.notes),
        ]
        parts.append("\n".join(lines))
        if how.example_prompt is not None:
            parts.append("The first prompt:\n\n" + markdown_block(how.example_prompt, "text"))
    return "\n\n".join(parts) + "\n"


def _table(table: TextTable) -> str:
    return markdown_table([[_cell(cell) for cell in row] for row in (table.columns, *table.rows)])


def _cell(cell: str) -> str:
    return cell if FIGURES.fullmatch(cell) else markdown_text(cell)


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of Markdown cells as a table; the first row is its head."""
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))

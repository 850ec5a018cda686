"""The tables of an evaluation, as text that fits a width, and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ictcli.evaluation.passk import Interval
from ictcli.evaluation.results import FEW, Result, metrics_of

GAP = 2
Results = Sequence[Result]


@dataclass(frozen=True)
class Grid:
    """Columns, and rows of cells; a cell may have two lines."""

    columns: list[str]
    rows: list[list[str]]

    @property
    def width(self) -> int:
        """In characters, with the gaps between columns."""
        return sum(
            max(len(line) for cell in column for line in cell.split("\n")) + GAP
            for column in zip(self.columns, *self.rows, strict=True)
        ) - (GAP if self.columns else 0)


@dataclass(frozen=True)
class Column:
    head: str
    cell: Callable[[Result], str]


LABELS = (
    Column("model", lambda result: result.name),
    Column("benchmark", lambda result: result.benchmark),
)
COSTS = (
    Column("truncated", lambda result: f"{result.truncated:.1%}"),
    Column("unparsed", lambda result: f"{result.unparsed:.1%}"),
    Column("timed out", lambda result: f"{result.timed_out:.1%}"),
    Column("tokens", lambda result: f"{result.tokens:,}"),
    Column("seconds", lambda result: f"{result.seconds:.1f}"),
)
SPEED = Column("tokens/s", lambda result: f"{result.tokens_per_second or 0:,.0f}")


def interval(
    score: Interval | dict[str, float] | None, *, folded: bool = False, sign: str = ""
) -> str:
    """`0.312 [0.280, 0.344]`, or on two lines; `-` where there is none."""
    if score is None:
        return "-"
    parts = score if isinstance(score, dict) else score.json()
    value, low, high = (f"{parts[key]:{sign}.3f}" for key in ("value", "low", "high"))
    return f"{value}\n{low}-{high}" if folded else f"{value} [{low}, {high}]"


def scores(results: Results, *, folded: bool = False) -> tuple[Column, ...]:
    """A column a metric."""
    return tuple(
        Column(name, lambda result, name=name: interval(result.scores[name], folded=folded))
        for name in metrics_of(results)
    )


def grid(results: Results, columns: Sequence[Column]) -> Grid:
    """A row a model and benchmark."""
    rows = [[column.cell(result) for column in columns] for result in results]
    return Grid([column.head for column in columns], rows)


def listed(results: Results, columns: Sequence[Column], value: str = "value") -> Grid:
    """A row a model, benchmark and column."""
    rows: list[list[str]] = []
    for result in results:
        labels = [label.cell(result) for label in LABELS]
        for column in columns:
            rows.append([*labels, column.head, column.cell(result)])
            labels = [""] * len(LABELS)
    return Grid([*(label.head for label in LABELS), "metric", value], rows)


def whole(results: Results) -> Grid:
    return grid(results, (*LABELS, *scores(results), *COSTS))


def fitting(results: Results, width: int | None) -> list[Grid]:
    """One table where it fits into `width` characters (None: any does), else scores and costs."""
    if width is None or whole(results).width <= width:
        return [whole(results)]
    narrower = (
        [
            grid(results, (*LABELS, *scores(results))),
            grid(results, (*LABELS, *scores(results, folded=True))),
            listed(results, scores(results)),
        ],
        [
            grid(results, (*LABELS, *COSTS, SPEED)),
            grid(results, (*LABELS, *COSTS)),
            listed(results, COSTS),
        ],
    )
    return [next((one for one in ways if one.width <= width), ways[-1]) for ways in narrower]


def differences(results: Results) -> Grid | None:
    """A row a model, benchmark and metric: how far it lies from the first model's, `*` where the
    interval excludes 0. None where there is one model."""
    others = [result for result in results if result.difference]
    columns = [
        Column(name, lambda result, name=name: _difference(result, name))
        for name in metrics_of(results)
    ]
    return listed(others, columns, f"minus {results[0].name}") if others else None


def _difference(result: Result, metric: str) -> str:
    score = result.difference and result.difference.scores[metric]
    return interval(score or None, sign="+") + (" *" if score and score.differs else "")


def caption(results: Results) -> str:
    """How the figures were made, in a sentence or two."""
    sizes = {result.benchmark: result.problems for result in results}
    counts = ", ".join(
        f"{size} problems" if len(sizes) == 1 else f"{size} of {name}"
        for name, size in sizes.items()
    )
    heat = dict.fromkeys(f"{result.settings.temperature:g}" for result in results)
    text = (
        f"{counts}, {results[0].n} samples each, temperature {' and '.join(heat)}; "
        "95 % intervals by bootstrap over problems."
    )
    if any(result.difference for result in results):
        text += " Differences are paired by problem; * where 0 is outside the interval."
    if min(sizes.values()) < FEW:
        text += f" Of fewer than {FEW} problems intervals are too narrow."
    return text


def markdown(results: Results) -> str:
    """The tables, and how they were made."""
    parts = ["# Evaluation", _table(whole(results))]
    if (table := differences(results)) is not None:
        parts += ["## Differences", _table(table)]
    parts += [caption(results), "## How"]
    for result in results:
        how = result.settings
        stops = ", ".join(f"`{_plain(token)}`" for token in how.stop.values())
        template = (
            f"`{_plain(str(how.prompt['template']))}`" if how.template == "own" else how.template
        )
        pattern = f", answer pattern `{_plain(how.pattern)}`" if how.pattern else ""
        lines = [
            f"**{_plain(result.name)}, {_plain(result.benchmark)}**: {result.problems} problems"
            + "".join(f", {key} {value}" for key, value in how.source.items()),
            "",
            f"- n {result.n}, seed {how.seed}, temperature {how.temperature:g}, top-p "
            f"{how.top_p:g}, top-k {how.top_k}, at most {how.max_tokens} tokens",
            f"- template: {template}; stops at {stops or 'nothing'}",
            f"- verifier {how.verifier}{pattern}, {how.timeout:g} s an answer",
            f"- ictcli {how.ictcli}, {how.engine.get('engine', 'an engine')} on "
            f"{how.engine.get('device', '-')}, {how.engine.get('dtype', '-')}; model "
            f"{(how.fingerprint or '-')[:12]}",
            *(f"- {note}" for note in result.notes),
        ]
        parts.append("\n".join(lines))
        if how.example_prompt is not None:
            parts.append("The first prompt:\n\n" + _fenced(how.example_prompt))
    return "\n\n".join(parts) + "\n"


def _table(grid: Grid) -> str:
    rows = [grid.columns, ["---"] * len(grid.columns), *grid.rows]
    return "\n".join("| " + " | ".join(_plain(cell) for cell in row) + " |" for row in rows)


def _plain(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|").replace("`", "'")


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"

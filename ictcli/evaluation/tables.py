"""The tables of an evaluation, as text that fits a width, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ictcli.evaluation.report import FEW, metrics_of

GAP = 2
Entries = Sequence[dict[str, Any]]


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


def interval(found: dict[str, float] | None, *, folded: bool = False, sign: str = "") -> str:
    """`0.312 [0.280, 0.344]`, or on two lines; `-` where there is none."""
    if found is None:
        return "-"
    value, low, high = (f"{found[key]:{sign}.3f}" for key in ("value", "low", "high"))
    return f"{value}\n{low}-{high}" if folded else f"{value} [{low}, {high}]"


COSTS = ("truncated", "unparsed", "timed out", "tokens", "seconds")


def _costs(one: dict[str, Any]) -> list[str]:
    shares = [f"{one[key]:.1%}" for key in ("truncated", "unparsed", "timed_out")]
    return [*shares, f"{one['tokens']:,}", f"{one['seconds']:.1f}"]


def scores(entries: Entries, *, folded: bool = False) -> Grid:
    """A row a model and benchmark, a column a metric."""
    names = metrics_of(entries)
    return Grid(
        ["model", "benchmark", *names],
        [
            [e["name"], e["benchmark"], *(interval(e[name], folded=folded) for name in names)]
            for e in entries
        ],
    )


def listed(entries: Entries) -> Grid:
    """A row a model, benchmark and metric."""
    names = metrics_of(entries)
    return _listed(entries, [[(name, interval(e[name])) for name in names] for e in entries])


def listed_costs(entries: Entries) -> Grid:
    """A row a model, benchmark and cost."""
    return _listed(entries, [list(zip(COSTS, _costs(e), strict=True)) for e in entries])


def _listed(entries: Entries, values: Sequence[Sequence[tuple[str, str]]]) -> Grid:
    """A row a model, benchmark, and name of a value."""
    return Grid(
        ["model", "benchmark", "metric", "value"],
        [
            ["" if i else e["name"], "" if i else e["benchmark"], name, value]
            for e, named in zip(entries, values, strict=True)
            for i, (name, value) in enumerate(named)
        ],
    )


def costs(entries: Entries, *, speed: bool = True) -> Grid:
    """Shares of samples that were cut, not read or not judged in time, and what they took."""
    rows = [
        [e["name"], e["benchmark"], *_costs(e), f"{e['tokens_per_second'] or 0:,.0f}"]
        for e in entries
    ]
    grid = Grid(["model", "benchmark", *COSTS, "tokens/s"], rows)
    return grid if speed else Grid(grid.columns[:-1], [row[:-1] for row in rows])


def whole(entries: Entries) -> Grid:
    """Scores and costs in one."""
    grid = scores(entries)
    rows = [[*row, *_costs(e)] for row, e in zip(grid.rows, entries, strict=True)]
    return Grid([*grid.columns, *COSTS], rows)


def fitting(entries: Entries, width: int | None) -> list[Grid]:
    """One table where it fits into `width` characters (None: any does), else scores and costs."""
    if width is None or whole(entries).width <= width:
        return [whole(entries)]
    ways = (scores(entries), scores(entries, folded=True), listed(entries))
    costly = (costs(entries), costs(entries, speed=False), listed_costs(entries))
    return [
        next((grid for grid in tried if grid.width <= width), tried[-1]) for tried in (ways, costly)
    ]


def differences(entries: Entries) -> Grid | None:
    """A row a model, benchmark and metric: how far it lies from the first model's, `*` where the
    interval excludes 0. None where there is one model."""
    rows: list[list[str]] = []
    for e in entries:
        found: dict[str, Any] | None = e["difference"]
        for name in metrics_of(entries) if found else ():
            part = found[name] if found else None
            value = interval(part, sign="+") + (" *" if part and part["differs"] else "")
            new = name == metrics_of(entries)[0]
            rows.append([e["name"] * new, e["benchmark"] * new, name, value])
    if not rows:
        return None
    first = entries[0]["name"]
    return Grid(["model", "benchmark", "metric", f"minus {first}"], rows)


def caption(entries: Entries) -> str:
    """How the figures were made, in a sentence or two."""
    one = entries[0]
    sizes = {e["benchmark"]: e["problems"] for e in entries}
    counts = ", ".join(
        f"{size} problems" if len(sizes) == 1 else f"{size} of {name}"
        for name, size in sizes.items()
    )
    heat = dict.fromkeys(f"{e['settings']['temperature']:g}" for e in entries)
    text = (
        f"{counts}, {one['n']} samples each, temperature {' and '.join(heat)}; "
        "95 % intervals by bootstrap over problems."
    )
    if any(e["difference"] for e in entries):
        text += " Differences are paired by problem; * where 0 is outside the interval."
    if min(sizes.values()) < FEW:
        text += f" Of fewer than {FEW} problems intervals are too narrow."
    return text


def markdown(entries: Entries) -> str:
    """The tables, and how they were made."""
    parts = ["# Evaluation", _table(whole(entries))]
    if (grid := differences(entries)) is not None:
        parts += ["## Differences", _table(grid)]
    parts += [caption(entries), "## How"]
    for e in entries:
        how = e["settings"]
        stops = ", ".join(f"`{_plain(token)}`" for token in how["stop"].values())
        template = (
            f"`{_plain(how['prompt']['template'])}`"
            if how["template"] == "own"
            else how["template"]
        )
        lines = [
            f"**{_plain(e['name'])}, {_plain(e['benchmark'])}**: {e['problems']} problems"
            + "".join(f", {key} {value}" for key, value in how["source"].items()),
            "",
            f"- n {e['n']}, seed {how['seed']}, temperature {how['temperature']:g}, top-p "
            f"{how['top_p']:g}, top-k {how['top_k']}, at most {how['max_tokens']} tokens",
            f"- template: {template}; stops at {stops or 'nothing'}",
            f"- verifier {how['verifier']}"
            + (f", answer pattern `{_plain(how['pattern'])}`" if how["pattern"] else "")
            + f", {how['timeout']:g} s an answer",
            f"- ictcli {how['ictcli']}, {how['engine'].get('engine', 'an engine')} on "
            f"{how['engine'].get('device', '-')}, {how['engine'].get('dtype', '-')}; model "
            f"{(how['fingerprint'] or '-')[:12]}",
            *(f"- {note}" for note in e["notes"]),
        ]
        parts.append("\n".join(lines))
        if how["example_prompt"] is not None:
            parts.append("The first prompt:\n\n" + _fenced(how["example_prompt"]))
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

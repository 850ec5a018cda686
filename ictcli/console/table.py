"""Tables and JSON on stdout."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from rich.table import Table
from rich.text import Text

from ictcli.console.plain import output
from ictcli.console.screen import Screen
from ictcli.evaluation.report import Folded, TextTable, first_fitting
from ictcli.text import escaped, finite, one_line

Row = TypeVar("Row")


def stdout_width() -> int | None:
    """Characters of a line; None if stdout is not a terminal."""
    out = Screen()
    return out.width if out.is_terminal else None


def print_json(data: Any, indent: int | None = 2) -> None:
    """Print strict JSON: a number that is not finite is null, and a character that stdout cannot
    take is an escape."""
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(finite(data), indent=indent, ensure_ascii=plain, allow_nan=False)
    output(*escaped(text, wide="").split("\n"))


def cell_text(cell: str, style: str = "") -> Text:
    """A cell of a table; only a folded one has several lines."""
    return Text(cell if isinstance(cell, Folded) else one_line(cell), style)


def table(columns: Sequence[str], body: Sequence[Sequence[str | Text]], least: int = 120) -> None:
    """Print a table; if stdout is not a terminal, at least `least` characters wide."""
    out = Screen()
    if not out.is_terminal:
        out = Screen(width=max(least, out.width))
    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        grid.add_column(cell_text(column), overflow="fold")
    for row in body:
        grid.add_row(*(cell_text(cell) if isinstance(cell, str) else cell for cell in row))
    out.print(grid)


def print_fitting(tables: Sequence[TextTable], style: Callable[[str], Text] = cell_text) -> None:
    """Print the first table that fits the terminal, else the last."""
    fitting = first_fitting(tables, stdout_width())
    rows = [[style(cell) for cell in row] for row in fitting.rows]
    table(fitting.columns, rows, least=fitting.width)


def print_columns(rows: Sequence[Row], columns: Mapping[str, Callable[[Row], str | Text]]) -> None:
    """Print a table of `columns`: titles, and what each shows of a row."""
    table(list(columns), [[cell(row) for cell in columns.values()] for row in rows])


def print_records(records: Sequence[dict[str, str]], *, as_json: bool) -> None:
    """Print records of the same keys, as JSON or as a table."""
    if as_json:
        print_json(records)
    elif records:
        table(list(records[0]), [list(record.values()) for record in records])

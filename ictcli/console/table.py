"""Tables and JSON on stdout."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from rich.table import Table as Grid
from rich.text import Text

from ictcli.console.plain import narrate_paragraph, output
from ictcli.console.screen import Screen
from ictcli.tables import Table
from ictcli.text import escaped, finite, one_line

Row = TypeVar("Row")
GAP = 2
LEAST = 120
"""Characters of a line where stdout is no terminal, or as many as a table needs."""


class Lines(str):
    """A cell of several lines."""


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
    """A cell of a table; only one of `Lines` has several."""
    return Text(cell if isinstance(cell, Lines) else one_line(cell), style)


def table(columns: Sequence[str], body: Sequence[Sequence[str | Text]], least: int = LEAST) -> None:
    """Print a table; if stdout is not a terminal, at least `least` characters wide."""
    out = Screen()
    if not out.is_terminal:
        out = Screen(width=max(least, out.width))
    grid = Grid(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for column in columns:
        grid.add_column(cell_text(column), overflow="fold")
    for row in body:
        grid.add_row(*(cell_text(cell) if isinstance(cell, str) else cell for cell in row))
    out.print(grid)


def print_table(*tables: Table, style: Callable[[str], str] = lambda _: "") -> None:
    """Print the first of these tables that fits the terminal, as it is or with intervals below
    their figures; else the last."""
    head, *body = rows = fitting(tables, stdout_width())
    styled = [[cell_text(cell, style(cell)) for cell in row] for row in body]
    table(head, styled, least=width_of(rows))


def print_noted(shown: Table, *narrower: Table) -> None:
    """Print a table, and what it says of itself on stderr."""
    print_table(shown, *narrower)
    narrate_paragraph(" ".join(filter(None, (shown.caption, shown.note))))


def fitting(tables: Sequence[Table], width: int | None) -> list[list[str]]:
    """Head and rows of the first of these tables that fits `width` characters, else of the last.
    None: any width fits."""
    shown: list[list[str]] = [[]]
    for each in tables:
        for folded in (False, True):
            shown = lines_of(each, folded=folded)
            if width is None or width_of(shown) <= width:
                return shown
    return shown


def lines_of(shown: Table, *, folded: bool = False) -> list[list[str]]:
    """Head and rows of a table; `folded`: heads and intervals take a second line."""
    heads = [one_line(column.head) for column in shown.columns]
    if not folded:
        return [heads, *([cell.line for cell in row] for row in shown.cells)]
    head = [head.replace(" ", "\n", 1) for head in heads]
    rows = [head, *([cell.lines for cell in row] for row in shown.cells)]
    return [[*map(Lines, row)] for row in rows]


def width_of(rows: Sequence[Sequence[str]]) -> int:
    """Characters of a table's longest line, with the gaps between columns."""
    columns = zip(*rows, strict=True)
    widths = [max(len(line) for cell in each for line in cell.split("\n")) for each in columns]
    return sum(width + GAP for width in widths) - GAP * bool(widths)


def print_columns(rows: Sequence[Row], columns: Mapping[str, Callable[[Row], str | Text]]) -> None:
    """Print a table of `columns`: heads, and what each shows of a row."""
    table(list(columns), [[cell(row) for cell in columns.values()] for row in rows])


def print_records(records: Sequence[dict[str, str]], *, as_json: bool) -> None:
    """Print records of the same keys, as JSON or as a table."""
    if as_json:
        print_json(records)
    elif records:
        table(list(records[0]), [list(record.values()) for record in records])

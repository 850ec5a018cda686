"""The terminal, and tables and JSON on it."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from ictcli.console.lines import narrate_paragraph, output
from ictcli.tables import Table, text_table
from ictcli.text import SPACES, escaped, finite, one_line, visible

GAP = 2
PAGE = 120
"""Characters of a line that is easily read."""


class Screen(Console):
    """The terminal as rich draws on it: stdout or stderr past the filter that `ictcli.cli.run` sets
    on them. Text cannot act on it: every sequence is rich's own."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        stream = sys.stderr if stderr else sys.stdout
        file = getattr(stream, "unfiltered", None)
        super().__init__(stderr=stderr, file=file, width=width)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            if control:
                yield Segment(text, style, control)
            else:
                plain = style.update_link(None) if style and style.link else style
                yield Segment(visible(text, SPACES + "\n"), plain)


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


def print_records(records: Sequence[dict[str, str]], *, as_json: bool) -> None:
    """Print records of the same keys, as JSON or as a table."""
    if as_json:
        print_json(records)
    elif records:
        print_table(text_table(records))


def cell_text(cell: str, style: str = "") -> Text:
    """A cell of a table; only one of `Lines` has several."""
    return Text(cell if isinstance(cell, Lines) else one_line(cell), style)


def print_table(*tables: Table, style: Callable[[str], str] = lambda _: "") -> None:
    """Print the first of these tables that fits the terminal, as it is or with intervals below
    their figures; else the last. Where stdout is no terminal a row is one line, however long."""
    out = Screen()
    head, *body = rows = fitting(tables, out.width if out.is_terminal else None)
    if not out.is_terminal:
        out = Screen(width=max(width_of(rows), out.width))
    grid = Grid(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for cell in head:
        grid.add_column(cell_text(cell), overflow="fold")
    for row in body:
        grid.add_row(*(cell_text(cell, style(cell)) for cell in row))
    out.print(grid)


def print_either_way(shown: Table) -> None:
    """Print a table by rows where these fit the terminal, or by columns; by columns too where rows
    are wider than a page and columns less so."""
    turned = shown.turned()
    by_rows, by_columns = (width_of(lines_of(each)) for each in (shown, turned))
    print_table(*[shown] * (by_rows <= max(PAGE, by_columns)), turned)


def print_noted(*tables: Table) -> None:
    """Print a table, and its caption and notes on stderr; of several each below its caption."""
    several = len(tables) > 1
    for number, shown in enumerate(tables):
        if several:
            output(*[""] * bool(number), shown.caption)
        print_either_way(shown)
        if about := shown.note if several else f"{shown.caption} {shown.note}".strip():
            narrate_paragraph(about)


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
    widths = [max(cell_len(line) for cell in each for line in cell.split("\n")) for each in columns]
    return sum(width + GAP for width in widths) - GAP * bool(widths)

"""The terminal, and printing of tables and JSON."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from ictcli.console.lines import narrate_paragraph, output
from ictcli.tables import Table, text_table
from ictcli.text import SPACES, escaped, finite, one_line, visible

WIDEST = 1_000_000
"""A line length at which no line is folded."""


class Screen(Console):
    """A rich console on stdout or stderr. It bypasses the filter of `ictcli.cli.run` and filters
    text itself, so that only rich's own control sequences reach the terminal."""

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


def stdout_width() -> int | None:
    """Return the width of the terminal in characters; None if stdout is not a terminal."""
    out = Screen()
    return out.width if out.is_terminal else None


def print_json(data: Any, indent: int | None = 2) -> None:
    """Print strict JSON: nan and inf as null, characters outside stdout's encoding as escapes."""
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(finite(data), indent=indent, ensure_ascii=plain, allow_nan=False)
    output(*escaped(text, wide="").split("\n"))


def print_records(records: Sequence[dict[str, str]], *, as_json: bool) -> None:
    """Print records, which all have the same keys, as JSON or as a table."""
    if as_json:
        print_json(records)
    elif records:
        print_table(text_table(records))


def cell_text(text: str, style: str = "") -> Text:
    """Return a text as one line, in a style of rich."""
    return Text(one_line(text), style)


def print_table(*tables: Table, style: Callable[[str], str] = lambda _: "") -> None:
    """Print the first of these tables that fits the terminal, with intervals beside or below their
    values; the last if none fits. If stdout is not a terminal, every row is one line."""
    out = Screen()
    grids = [_grid(table, style, folded) for table in tables for folded in (False, True)]
    widths = [out.measure(grid, options=out.options.update(width=WIDEST)).maximum for grid in grids]
    if not out.is_terminal:
        out = Screen(width=max(widths[0], out.width))
    fitting = (grid for grid, width in zip(grids, widths, strict=True) if width <= out.width)
    out.print(next(fitting, grids[-1]))


def print_noted(*tables: Table) -> None:
    """Print a table, turned (rows as columns) if it does not fit the terminal, and its caption on
    stderr. Several tables are printed each below its caption."""
    several = len(tables) > 1
    for number, table in enumerate(tables):
        if several:
            output(*[""] * bool(number), table.caption)
        print_table(table, table.turned())
        if not several:
            narrate_paragraph(table.caption)


def _grid(table: Table, style: Callable[[str], str], folded: bool) -> Grid:
    """Return a table for rich. `folded`: heads and intervals take a second line."""
    grid = Grid(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in table.columns:
        head = one_line(column.head)
        grid.add_column(Text(head.replace(" ", "\n", 1) if folded else head), overflow="fold")
    for row in table.cells:
        texts = [cell.lines if folded else cell.line for cell in row]
        grid.add_row(*(Text(text, style(text)) for text in texts))
    return grid

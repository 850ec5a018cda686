"""Tables on stdout."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def stdout_width() -> int | None:
    """Characters of a line; None where stdout is no terminal."""
    out = Console()
    return out.width if out.is_terminal else None


def table(columns: Sequence[str], body: Sequence[Sequence[str | Text]], least: int = 120) -> None:
    """A table on stdout; as wide as its content, or `least`, where stdout is no terminal."""
    out = Console()
    if not out.is_terminal:
        out = Console(width=max(least, out.width))
    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        grid.add_column(Text(column), overflow="fold")
    for row in body:
        grid.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    out.print(grid)


def rows(found: Sequence[dict[str, str]], *, as_json: bool) -> None:
    """Records of the same keys, as JSON or as a table."""
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    elif found:
        table(list(found[0]), [list(row.values()) for row in found])

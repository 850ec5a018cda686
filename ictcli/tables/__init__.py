"""Tables, numbers as text, and templates.

| module | holds |
|---|---|
| here | `Table` and `Column`, and tables as Markdown; `console.table` prints one |
| `numbers` | figures, shares, intervals, sizes and counts as text |
| `pages` | templates for HTML, Markdown and plain text, which escape the values filled in |
"""

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from ictcli.tables.numbers import ABSENT, Format, interval, rounded, shown_share
from ictcli.text import markdown_text, one_line

Row = TypeVar("Row")


@dataclass(frozen=True)
class Span:
    """A number with its interval, or with the smallest and largest values."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Cell:
    """The content of a cell of a table."""

    text: str
    interval: str = ""
    star: bool = False
    """Whether the cell's difference is significant: a star follows the text."""
    colour: str = ""
    """CSS colour of a dot before the text."""

    @property
    def line(self) -> str:
        """The cell on one line: `31.2 % [28.0, 34.4] *`."""
        parts = (self.text, self.interval, "*" * self.star)
        return one_line(" ".join(filter(None, parts)))

    @property
    def lines(self) -> str:
        """The cell on two lines, with the interval on the second."""
        value = one_line(self.text) + " *" * self.star
        return f"{value}\n{self.interval}" if self.interval else value


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column: its head, and a function from a row to its value, a number, a text or None."""

    head: str
    value: Callable[[Row], Any]
    format: Format | type[str] = rounded
    """Formats a number; `str` for a column of texts, which is left-aligned."""
    bounded: bool = False
    """Whether the values are `Span`s."""

    @property
    def is_text(self) -> bool:
        return self.format is str

    def cell(self, row: Row) -> Cell:
        value = self.value(row)
        if isinstance(value, Cell):
            return value
        if value is None:
            return Cell(ABSENT)
        if not self.bounded:
            return Cell(one_line(value) if self.is_text else self.format(value))
        span, form = cast(Span, value), cast(Format, self.format)
        star = bool(getattr(span, "differs", False))
        return Cell(form(span.value), interval(span.low, span.high, form), star)


@dataclass(frozen=True)
class Table:
    columns: Sequence[Column[Any]]
    rows: Sequence[Any]
    name: str = ""
    """Name of the table in a page, such as `summary`."""
    caption: str = ""

    @cached_property
    def cells(self) -> list[list[Cell]]:
        return [[column.cell(row) for column in self.columns] for row in self.rows]

    def only(self, *heads: str) -> "Table":
        """Return the table with only the columns that have these heads."""
        return replace(self, columns=[column for column in self.columns if column.head in heads])

    def turned(self) -> "Table":
        """Return the table transposed: a row per column, headed by the first cells of the rows."""
        first, *others = self.columns

        def column(place: int) -> Column[int]:
            return Column(self.cells[place][0].text, lambda at: self.cells[place][at + 1])

        names = Column[int](first.head, lambda at: others[at].head, str)
        columns = [names, *map(column, range(len(self.rows)))]
        return replace(self, columns=columns, rows=range(len(others)))


def text_table(rows: Sequence[dict[str, Any]], name: str = "") -> Table:
    """Return a table of texts. The heads are the rows' keys, which are the same in all rows."""

    def column(key: str) -> Column[dict[str, Any]]:
        return Column(key, lambda row: row[key], str)

    return Table([column(key) for key in (rows[0] if rows else ())], rows, name)


def score_columns(
    names: Iterable[str],
    scores: Callable[[Row], Mapping[str, Span | None]],
    form: Format = shown_share,
) -> list[Column[Row]]:
    """Return a column per score name; `scores` returns a row's scores by name."""
    return [Column(n, lambda row, n=n: scores(row).get(n), form, bounded=True) for n in names]


def markdown(table: Table) -> str:
    """Return a table in GitHub's Markdown."""
    head = [markdown_text(column.head) for column in table.columns]
    marks = [":--" if column.is_text else "--:" for column in table.columns]
    body = [
        [
            markdown_text(cell.line) if column.is_text else html.escape(cell.line, quote=False)
            for cell, column in zip(row, table.columns, strict=True)
        ]
        for row in table.cells
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, marks, *body))

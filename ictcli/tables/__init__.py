"""Tables, whose columns are declared once; numbers as text; and pages of templates.

| module | holds |
|---|---|
| here | `Table` and `Column`, as Markdown. On a terminal: `console.table` |
| `numbers` | figures, shares, intervals, sizes and counts as text |
| `pages` | templates: pages in HTML and Markdown, in which text of others stays text; sentences |
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
    """A figure with an interval, or with a smallest and a largest value."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Cell:
    """The content of a cell of a table."""

    text: str
    interval: str = ""
    star: bool = False
    """A star stands after it: the difference is significant."""
    colour: str = ""
    """CSS colour of a dot before the text."""

    @property
    def line(self) -> str:
        """`31.2 % [28.0, 34.4] *`."""
        parts = (self.text, self.interval, "*" * self.star)
        return one_line(" ".join(filter(None, parts)))

    @property
    def lines(self) -> str:
        """The same with the interval below the figure."""
        value = one_line(self.text) + " *" * self.star
        return f"{value}\n{self.interval}" if self.interval else value


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column: its head, and its value of a row, a number, a text or None."""

    head: str
    value: Callable[[Row], Any]
    format: Format | type[str] = rounded
    """Makes text of a number; `str` in a column of texts, which is set flush left."""
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
    """Its place in a page."""
    caption: str = ""

    @cached_property
    def cells(self) -> list[list[Cell]]:
        return [[column.cell(row) for column in self.columns] for row in self.rows]

    def only(self, *heads: str) -> "Table":
        """Return the same of the columns with these heads."""
        return replace(self, columns=[each for each in self.columns if each.head in heads])

    def turned(self) -> "Table":
        """Return the same with a row for each column: the first cells of rows are the heads."""
        first, *others = self.columns

        def column(place: int) -> Column[int]:
            return Column(self.cells[place][0].text, lambda at: self.cells[place][at + 1])

        names = Column[int](first.head, lambda at: others[at].head, str)
        columns = [names, *map(column, range(len(self.rows)))]
        return replace(self, columns=columns, rows=range(len(others)))


def text_table(rows: Sequence[dict[str, Any]], name: str = "") -> Table:
    """Return a table of texts: rows of the same keys, which are the heads."""

    def column(key: str) -> Column[dict[str, Any]]:
        return Column(key, lambda row: row[key], str)

    return Table([column(key) for key in (rows[0] if rows else ())], rows, name)


def score_columns(
    names: Iterable[str],
    scores: Callable[[Row], Mapping[str, Span | None]],
    form: Format = shown_share,
) -> list[Column[Row]]:
    """Return a column for each of these scores of a row, by its name."""
    return [Column(n, lambda row, n=n: scores(row).get(n), form, bounded=True) for n in names]


def markdown(table: Table) -> str:
    """Return a table of GitHub's Markdown."""
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

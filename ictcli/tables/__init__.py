"""Tables, whose columns are declared once; numbers as text; and pages of templates.

| module | holds |
|---|---|
| here | `Table` and `Column`; as Markdown and CSV. On a terminal: `console.table` |
| `numbers` | figures, shares, intervals, sizes and counts as text |
| `pages` | templates: pages in HTML and Markdown, in which text of others stays text; sentences |

Whoever draws a table takes the text and the unrounded values of its cells.
"""

import csv
import html
import io
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
    """What is read, and the values behind it, unrounded, one for each name of its column."""

    text: str
    values: tuple[Any, ...]
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
    note: str = ""
    """A sentence that a reader of the column needs."""
    name: str = ""
    """In the CSV file; without one, the head."""
    bounded: bool = False

    @property
    def is_text(self) -> bool:
        return self.format is str

    @property
    def names(self) -> list[str]:
        """Of the values of a cell."""
        name = self.name or self.head
        return [name, f"{name} low", f"{name} high"] if self.bounded else [name]

    def cell(self, row: Row) -> Cell:
        value = self.value(row)
        if isinstance(value, Cell):
            return value
        if value is None:
            return Cell(ABSENT, (None,) * len(self.names))
        if not self.bounded:
            text = one_line(value) if self.is_text else self.format(value)
            return Cell(text, (text if self.is_text else value,))
        known, form = cast(Span, value), cast(Format, self.format)
        values = (known.value, known.low, known.high)
        star = bool(getattr(known, "differs", False))
        return Cell(form(known.value), values, interval(known.low, known.high, form), star)


@dataclass(frozen=True)
class Table:
    columns: Sequence[Column[Any]]
    rows: Sequence[Any]
    name: str = ""
    """Of the CSV file, and of the place in a page."""
    caption: str = ""
    about: str = ""
    """What a reader needs besides the notes of the columns."""

    @cached_property
    def cells(self) -> list[list[Cell]]:
        return [[column.cell(row) for column in self.columns] for row in self.rows]

    @property
    def note(self) -> str:
        """All that a reader of its columns needs."""
        notes = (self.about, *(column.note for column in self.columns))
        return " ".join(filter(None, dict.fromkeys(notes)))

    def only(self, *heads: str) -> "Table":
        """The same of the columns with these heads."""
        return replace(self, columns=[each for each in self.columns if each.head in heads])

    def turned(self) -> "Table":
        """The same with a row for each column: the first cells of rows are the heads."""
        first, *others = self.columns

        def column(place: int) -> Column[int]:
            return Column(self.cells[place][0].text, lambda at: self.cells[place][at + 1])

        names = Column[int](first.head, lambda at: others[at].head, str)
        columns = [names, *map(column, range(len(self.rows)))]
        return replace(self, columns=columns, rows=range(len(others)))

    def csv(self) -> str:
        """The values, unrounded. Text that a spreadsheet would run has an apostrophe before it."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([name for column in self.columns for name in column.names])
        writer.writerows([_field(v) for cell in row for v in cell.values] for row in self.cells)
        return file.getvalue()


def _field(value: Any) -> Any:
    runs = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if runs else value


def text_table(rows: Sequence[dict[str, Any]], **about: str) -> Table:
    """A table of texts: rows of the same keys, which are the heads."""

    def column(key: str) -> Column[dict[str, Any]]:
        return Column(key, lambda row: row[key], str)

    return Table([column(key) for key in (rows[0] if rows else ())], rows, **about)


def score_columns(
    names: Iterable[str],
    scores: Callable[[Row], Mapping[str, Span | None]],
    form: Format = shown_share,
) -> list[Column[Row]]:
    """A column for each of these scores of a row, by its name."""
    return [Column(n, lambda row, n=n: scores(row).get(n), form, bounded=True) for n in names]


def markdown(table: Table) -> str:
    """A table of GitHub's Markdown."""
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

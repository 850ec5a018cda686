"""A report as sections of blocks, before it is HTML or Markdown: both hold the same numbers."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ictcli.compare.numbers import ABSENT, bounds, figure
from ictcli.text import visible


@dataclass(frozen=True)
class Cell:
    """What is read, and the values behind it, unrounded, one for each name of its column."""

    text: str
    values: tuple[Any, ...]
    colour: str = ""
    """CSS colour of a dot before the text."""
    under: str = ""
    """A second line."""


Row = TypeVar("Row")
Interval = tuple[float | None, float | None]


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a table: its heading, and the cell it makes of a row."""

    title: str
    cell: Callable[[Row], Cell]
    names: tuple[str, ...]
    """Headings of the cell's values in the CSV file."""
    is_text: bool = False
    """Text is set flush left."""


def number_cell(value: float | None, form: Callable[[Any], str] = figure) -> Cell:
    """A number as `form` writes it; None is absent."""
    return Cell(ABSENT if value is None else form(value), (value,))


def text_cell(text: object) -> Cell:
    return Cell(visible(str(text)), (visible(str(text)),))


def column(
    title: str,
    value: Callable[[Row], float | None],
    form: Callable[[Any], str] = figure,
    name: str = "",
) -> Column[Row]:
    """A column of numbers, `name` in the CSV file."""
    return Column(title, lambda row: number_cell(value(row), form), (name or title,))


def text_column(title: str, text: Callable[[Row], object], name: str = "") -> Column[Row]:
    return Column(title, lambda row: text_cell(text(row)), (name or title,), is_text=True)


def interval_column(
    title: str,
    name: str,
    value: Callable[[Row], tuple[float | None, Interval | None]],
    form: Callable[[float], str] = figure,
    ends: tuple[str, str] = ("low", "high"),
) -> Column[Row]:
    """A column of numbers, each with its interval below it where it has one of some width."""

    def cell(row: Row) -> Cell:
        middle, interval = value(row)
        low, high = interval or (None, None)
        under = bounds(low, high, form) if low != high else ""
        return Cell(number_cell(middle, form).text, (middle, low, high), under=under)

    return Column(title, cell, (name, *(f"{name} {end}" for end in ends)))


@dataclass(frozen=True)
class ReportTable:
    name: str
    """Of the CSV file, and of the place in the page."""
    caption: str
    columns: Sequence[Column[Any]]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


def report_table(
    name: str, caption: str, columns: Sequence[Column[Row]], rows: Iterable[Row], note: str = ""
) -> ReportTable:
    cells = [[column.cell(row) for column in columns] for row in rows]
    return ReportTable(name, caption, columns, cells, note)


@dataclass(frozen=True)
class Panel:
    """One drawing of a figure: its title, and its SVG given a name no other drawing has."""

    title: str
    draw: Callable[[str], str]


@dataclass(frozen=True)
class Key:
    """An entry of a figure's legend: CSS colour, dashes of the line or None, path of the mark."""

    label: str
    colour: str
    dashes: str | None = None
    mark: str = ""
    hollow: bool = False


@dataclass(frozen=True)
class Figure:
    name: str
    caption: str
    panels: Sequence[Panel]
    keys: Sequence[Key] = ()


@dataclass(frozen=True)
class Text:
    """A paragraph; a note is set smaller, an absent one says what is not there and why."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Items:
    items: Sequence[str]


@dataclass(frozen=True)
class Code:
    title: str
    text: str


@dataclass(frozen=True)
class ClaimRow:
    verdict: str
    name: str
    measured: str
    """The number behind the verdict, with its interval."""
    sentence: str


@dataclass(frozen=True)
class Claims:
    """A row for each claim, its sentence folded."""

    claims: Sequence[ClaimRow]


Block = ReportTable | Figure | Text | Items | Code | Claims


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    title: str
    lead: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    colours: Sequence[tuple[str, str]] = field(default_factory=tuple[tuple[str, str], ...])
    """CSS variables of the variants: name and value."""

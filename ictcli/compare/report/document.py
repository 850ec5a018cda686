"""A report as sections of blocks, before it is HTML or Markdown: both hold the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast


@dataclass(frozen=True)
class Cell:
    """What is read, and the values behind it, unrounded, one for each name of its column."""

    text: str
    values: tuple[Any, ...]
    colour: str = ""
    """CSS colour of a dot before the text."""
    under: str = ""
    """A second line."""


@dataclass(frozen=True)
class Column:
    """`names` head its values in the CSV file; text is set flush left."""

    title: str
    names: tuple[str, ...]
    is_text: bool = False


@dataclass(frozen=True)
class Table:
    name: str
    """Of the CSV file, and of the place in the page."""
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


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
class Claims:
    """Verdict, what is claimed, and the sentence, of each claim."""

    claims: Sequence[tuple[str, str, str]]


Block = Table | Figure | Text | Items | Code | Claims


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


def text_column(title: str, name: str | None = None) -> Column:
    return Column(title, (name or title,), is_text=True)


def mapping(value: Any) -> dict[str, Any]:
    """A mapping of the result; empty where it is null."""
    return cast(dict[str, Any], value or {})

"""A table is the same wherever it is drawn, and nothing in it acts there."""

import re
from dataclasses import dataclass, replace

import pytest
from markdown_it import MarkdownIt

from ictcli.console.table import print_table
from ictcli.tables import Column, Table, markdown
from ictcli.tables.numbers import counted, interval, percent, points, rounded, size_text

HOSTILE = "=1+1 <b>|`x`\n[a](b)\x1b[2J"


@dataclass(frozen=True)
class Figure:
    name: str
    value: float
    low: float | None
    high: float | None
    differs: bool = False


COLUMNS = [
    Column[Figure]("name", lambda row: row.name, str),
    Column[Figure]("gain", lambda row: row, points, bounded=True),
    Column[Figure]("share, %", lambda row: row.value or None, percent),
]
ROWS = [Figure(HOSTILE, 0.125, -0.0625, 0.3, differs=True), Figure("b", 0.0, None, None)]
TABLE = Table(COLUMNS, ROWS)


def cells(text: str) -> list[list[str]]:
    """Of a Markdown table, as CommonMark with GitHub's tables reads it."""
    rows: list[list[str]] = []
    for token in MarkdownIt().enable("table").parse(text):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            assert all(child.type == "text" for child in token.children or [])
            rows[-1].append("".join(child.content for child in token.children or []))
    return rows


def test_terminal_and_markdown_have_the_same_cells(capsys: pytest.CaptureFixture[str]) -> None:
    shown = cells(markdown(TABLE))
    assert shown[1][1:] == ["+12.5 [\u22126.2, +30.0] *", "12.5"] and shown[2][1:] == [
        "0.0",
        "\u2013",
    ]
    print_table(TABLE)
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert all(re.sub(r"\s+", " ", cell) in text for row in shown for cell in row)
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("width", "head", "row"),
    [
        (80, "name gain share, %", "b 0.0 \u2013"),
        (30, "share,", "[\u22126.2, +30.0]"),
        (10, "share, %", "12.5"),
    ],
)
def test_the_first_form_that_fits_the_terminal_is_drawn(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    head: str,
    row: str,
) -> None:
    """As it is, with intervals below their figures, or another table."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    short = Table(COLUMNS, [replace(ROWS[0], name="a"), ROWS[1]])
    print_table(short, short.only("share, %"))
    text = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == head.split() and row.split() in lines, text
    assert max(map(len, text.splitlines())) <= width


def test_turned_twice_a_table_is_as_it_was() -> None:
    def lines(table: Table) -> list[list[str]]:
        heads = [column.head for column in table.columns]
        return [heads, *([cell.line for cell in row] for row in table.cells)]

    turned = TABLE.turned()
    assert lines(turned) == [*map(list, zip(*lines(TABLE), strict=True))]
    assert lines(turned.turned()) == lines(TABLE)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (size_text(1023), "1023 B"),
        (size_text(1024), "1.00 KiB"),
        (size_text(1.2e9), "1.12 GiB"),
        (interval(None, 0.1, percent), ""),
        (rounded(-0.00001234), "\u22121.2e\u221205"),
        (points(-0.0001), "0.0"),
        (counted(1, "seed"), "1 seed"),
    ],
)
def test_numbers_as_text(made: str, text: str) -> None:
    assert made == text

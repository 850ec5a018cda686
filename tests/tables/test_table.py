"""A table is the same wherever it is drawn, and nothing in it acts there."""

import csv
import io
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ictcli.console.table import fitting, lines_of, print_table, width_of
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
    Column[Figure]("gain", lambda row: row, points, "A note.", bounded=True),
    Column[Figure]("share, %", lambda row: row.value or None, percent, name="share"),
]
ROWS = [Figure(HOSTILE, 0.125, -0.0625, 0.3, differs=True), Figure("b", 0.0, None, None)]
TABLE = Table(COLUMNS, ROWS, about="About.")


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
    assert shown == lines_of(TABLE)
    assert shown[1][1:] == ["+12.5 [\u22126.2, +30.0] *", "12.5"] and shown[2][1:] == [
        "0.0",
        "\u2013",
    ]
    print_table(TABLE)
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert all(re.sub(r"\s+", " ", cell) in text for row in shown for cell in row)
    assert "\x1b" not in text and TABLE.note == "About. A note."


def test_csv_has_the_values_unrounded_and_runs_nothing() -> None:
    head, first, second = csv.reader(io.StringIO(TABLE.csv()))
    assert head == ["name", "gain", "gain low", "gain high", "share"]
    assert first[0].startswith("'=1+1") and [*map(float, first[1:])] == [0.125, -0.0625, 0.3, 0.125]
    assert second == ["b", "0.0", "", "", ""]


def test_intervals_go_below_their_figures_where_a_table_is_too_wide() -> None:
    wide = width_of(lines_of(TABLE))
    assert fitting([TABLE], wide) == lines_of(TABLE)
    folded = fitting([TABLE], wide - 1)
    assert folded[1][1] == "+12.5 *\n[\u22126.2, +30.0]" and width_of(folded) < wide
    assert fitting([TABLE, TABLE.only("share, %")], 10) == [["share, %"], ["12.5"], ["\u2013"]]


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=4))
def test_turned_twice_a_table_is_as_it_was(values: list[float]) -> None:
    rows = [Figure(f"row {n}", value, -1, 1) for n, value in enumerate(values)]
    table = Table(COLUMNS, rows)
    assert lines_of(table.turned()) == [*map(list, zip(*lines_of(table), strict=True))]
    assert lines_of(table.turned().turned()) == lines_of(table)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (size_text(0), "0 B"),
        (size_text(1023), "1023 B"),
        (size_text(1024), "1.00 KiB"),
        (size_text(1.2e9), "1.12 GiB"),
        (size_text(2**50), "1024.0 TiB"),
        (interval(None, 0.1, percent), ""),
        (interval(-0.1, 0.1, percent), "[\u221210.0, 10.0]"),
        (rounded(1234.5), "1,234"),
        (rounded(-0.00001234), "\u22121.2e\u221205"),
        (points(-0.0001), "0.0"),
        (counted(1, "seed"), "1 seed"),
    ],
)
def test_numbers_as_text(made: str, text: str) -> None:
    assert made == text

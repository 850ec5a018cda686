"""Rows of a local file: JSONL, CSV or Parquet."""

import csv
import hashlib
import io
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.files import encodable
from ictcli.files.reading import UnreadableError, parse_json, read_bytes

FILES = (".jsonl", ".csv", ".parquet")
"""File name suffixes of data files."""
LARGEST = 2 << 30
"""Bytes of a data file: its rows are all in memory."""
PROMPTS = ("prompt", "question", "problem")
"""Usual columns of the question."""


@dataclass(frozen=True)
class Row:
    """A row by column name."""

    where: str
    """Its place for error messages: `data.jsonl, line 3`."""
    number: int
    """Line or row of a file, from 1; or row of a hub config, from 0."""
    columns: dict[str, Any]
    config: str = ""

    def get(self, name: str) -> Any:
        """The value in a column; None if it is missing, NaN or infinite."""
        value = self.columns.get(name)
        return None if isinstance(value, float) and not math.isfinite(value) else value

    @property
    def filled(self) -> list[str]:
        """The columns that have a value."""
        return [name for name in self.columns if self.get(name) is not None]


@dataclass(frozen=True)
class Rows:
    """The rows of a data set."""

    rows: list[Row]
    source: dict[str, Any]
    """For the record: file and sha256, or path, config, split and the revision used."""
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The column names of all rows, in order."""
        return list(dict.fromkeys(name for row in self.rows for name in row.columns))


def is_file_name(name: str) -> bool:
    """Whether the name of a task or benchmark is a data file."""
    return name.lower().endswith(FILES)


def kind_of(value: Any) -> str:
    """The type of a value in words: text, a list, an object, a number, nothing."""
    if value is None:
        return "nothing"
    kinds = ((str, "text"), (list, "a list"), (dict, "an object"), (int | float, "a number"))
    return next((word for kind, word in kinds if isinstance(value, kind)), type(value).__name__)


def read_file(name: str) -> Rows:
    """The rows of a file: .parquet, .csv (with a header; all cells are text), or else JSONL (one
    object per line; blank lines are skipped). UserError, with the line, if it cannot be read."""
    path = Path(name)
    if not path.exists():
        raise UserError(
            f"There is no data file {name}.", "give the path of a .jsonl, .csv or .parquet file"
        )
    try:
        content = read_bytes(path, LARGEST)
    except UnreadableError:
        raise
    except OSError as error:
        raise UserError(f"{name} cannot be read: {error.strerror}.", "check the file") from error
    if name.lower().endswith(".parquet"):
        rows = list(_parquet(name, content))
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UserError(f"{name} is not UTF-8: {error}.", "save it as UTF-8") from error
        rows = list(_csv(name, text) if name.lower().endswith(".csv") else _jsonl(name, text))
    if not rows:
        raise UserError(f"The data set {name} is empty.", "give it one problem a line at least")
    return Rows(rows, {"file": path.name, "sha256": hashlib.sha256(content).hexdigest()})


def _jsonl(name: str, text: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            row = parse_json(line, parse_int=_integer)
        except ValueError as error:
            raise UserError(f"{where} is not JSON: {error}.", "one object a line") from error
        if not isinstance(row, dict):
            raise UserError(
                f"{where} is {kind_of(row)}, and no object.",
                'one object a line: {"prompt": "...", "gold": "..."}',
            )
        yield Row(where, number, cast("dict[str, Any]", row))


def _integer(digits: str) -> int | str:
    """As text where Python makes no number of so many digits."""
    try:
        return int(digits)
    except ValueError:
        return digits


def _csv(name: str, text: str) -> Iterator[Row]:
    """The rows of CSV text, with cells of any length; an empty cell has no value."""
    limit = csv.field_size_limit(sys.maxsize)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    first = 1
    try:
        for cells in reader:
            where, number = f"{name}, line {first}", first
            first = reader.line_num + 1
            if not cells:
                continue
            if header is None:
                header = [cell.strip() for cell in cells]
                if len(header) == 1 and (separator := re.search(r"[;\t]", cells[0])):
                    mark = "semicolons" if separator[0] == ";" else "tabs"
                    raise UserError(
                        f"{where} parts its cells by {mark}; a .csv file is read with commas.",
                        "save it with commas between the cells",
                    )
                if len(set(header)) < len(header):
                    raise UserError(f"{where} names a column twice.", "the first line names them")
                continue
            if len(cells) > len(header):
                raise UserError(
                    f"{where} has {len(cells)} cells, and the header {len(header)}.",
                    'a text with a comma in it stands in quotes: "a, b"',
                )
            yield Row(where, number, dict(zip_longest(header, [cell or None for cell in cells])))
    except csv.Error as error:
        raise UserError(f"{name}, line {first} is not CSV: {error}.", "check its quotes") from error
    finally:
        csv.field_size_limit(limit)  # of the whole process


def _parquet(name: str, content: bytes) -> Iterator[Row]:
    import pyarrow  # pyright: ignore[reportMissingTypeStubs]
    from pyarrow import parquet  # pyright: ignore

    arrow = cast(Any, pyarrow)
    try:
        columns = cast(Any, parquet).read_table(arrow.BufferReader(content)).to_pylist()
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise UserError(f"{name} is not Parquet: {reason}.", "check the file") from error
    for number, row in enumerate(columns, 1):
        yield Row(f"{name}, row {number}", number, row)


def text(row: Row, *names: str, key: str = "") -> str:
    """The first of those columns that has a value, as text. UserError if none has; its hint says
    that the recipe's `columns.key` can name another."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str | int | float):
            return encodable(str(value))
    for name in names:
        if (value := row.get(name)) is not None:
            raise UserError(
                f"{row.where} has a {name} that is {kind_of(value)}, not text.",
                "each row needs one, as text",
            )
    for name in names:
        value = row.columns.get(name)
        if isinstance(value, float) and math.isinf(value):
            raise UserError(
                f"{row.where} has a {name} that is not finite.", "write it as text, in quotes"
            )
    if empty := [name for name in names if name in row.columns]:
        raise UserError(f"{row.where} has an empty {empty[0]}.", "fill it in, or leave the row out")
    other = f"; columns.{key}=NAME names another" if key else ""
    raise UserError(
        f"{row.where} has no {' or '.join(names)}.",
        f"each row needs one, as text; it has {', '.join(row.filled) or 'nothing'}{other}",
    )

"""Rows of a local file (JSONL, JSON, CSV or Parquet), or of a folder that `datasets` saved."""

import csv
import hashlib
import io
import math
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

from ictcli.errors import UserError, reason_of
from ictcli.files import encodable
from ictcli.files.reading import UnreadableError, limited_memory, parse_json, read_bytes
from ictcli.text import kind_of

FILES = (".jsonl", ".json", ".csv", ".parquet")
"""File name suffixes of data files."""
KINDS = "a .jsonl, .json, .csv or .parquet file"
SAVED, SPLITS = "state.json", "dataset_dict.json"
"""Files that `Dataset.save_to_disk` and `DatasetDict.save_to_disk` write into a folder."""
LARGEST, MOST = 2 << 30, 10_000_000
"""Limits of a data set: bytes (of its file, and of its rows in memory) and number of rows."""
BATCH = 1000
"""Number of Parquet rows decoded at a time."""
PROMPTS = ("prompt", "question", "problem")
"""Usual names of the column with the question."""
CHATS = ("messages", "conversations")
"""Usual names of the column with a conversation, for rows without a question."""


@dataclass(slots=True)
class Row:
    """A row of a data set: its values by column name, and its place."""

    source: str
    """The place of the row without its number: `data.jsonl, line`."""
    number: int
    """Number of the line or row: from 1 in a file, from 0 in a hub config."""
    columns: dict[str, Any]
    config: str = ""

    @property
    def where(self) -> str:
        """The place of the row, for error messages: `data.jsonl, line 3`."""
        return f"{self.source} {self.number}"

    def get(self, name: str) -> Any:
        """Return the value of a column, or of an object's field by its dotted name (`a.b`). None if
        the value is missing, NaN or infinite."""
        value = self.columns.get(name)
        if "." in name and name not in self.columns:
            value: Any = self.columns
            for part in name.split("."):
                value = cast("dict[str, Any]", value).get(part) if isinstance(value, dict) else None
        return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Rows:
    """The rows of a data set."""

    rows: list[Row]
    source: dict[str, Any]
    """Where the rows come from: file and sha256, or path, config, split and revision on the hub."""
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The column names of all rows, in order."""
        return list(dict.fromkeys(name for row in self.rows for name in row.columns))

    @property
    def paths(self) -> list[str]:
        """The column names; a column of objects is replaced by the dotted names of its fields."""
        return list(dict.fromkeys(path for row in self.rows for path in paths_in(row.columns)))


def paths_in(value: dict[str, Any], before: str = "") -> Iterator[str]:
    """Yield the dotted names of the fields of an object and of the objects inside it."""
    for name, part in value.items():
        if isinstance(part, dict) and part:
            yield from paths_in(cast("dict[str, Any]", part), f"{before}{name}.")
        else:
            yield f"{before}{name}"


def is_file_name(name: str) -> bool:
    """Return whether a name is that of a data file, or of a folder that `datasets` saved."""
    return name.lower().endswith(FILES) or is_saved(Path(name))


def is_saved(folder: Path) -> bool:
    """Return whether a folder holds a data set that `save_to_disk` of `datasets` wrote."""
    try:
        return (folder / SPLITS).is_file() or (folder / SAVED).is_file()
    except OSError:  # no valid path: too long, for example
        return False


def read_file(name: str) -> Rows:
    """Return the rows of a file. Its suffix names the format: .parquet; .csv (with a header; all
    cells are text); .json (a list of objects, alone or in an object); any other: JSONL (one object
    per line; blank lines are skipped). UserError, with the line, if the file cannot be read."""
    path = Path(name)
    try:
        if not path.exists():
            raise UserError(f"There is no data file {name}.", f"give the path of {KINDS}")
        if path.is_dir() and not name.lower().endswith(FILES):
            raise UserError(
                f"{name} is a folder, but `Dataset.save_to_disk` did not write it.",
                f"give the path of {KINDS}",
            )
        content = read_bytes(path, LARGEST)
    except UnreadableError:
        raise
    except OSError as error:
        raise UserError(f"{name} cannot be read: {error.strerror}.", "check the file") from error
    source = {"file": path.name, "sha256": hashlib.sha256(content).hexdigest()}
    if name.lower().endswith(".parquet"):
        rows = in_memory(name, _parquet(name, content))
    else:
        try:
            text = content.decode("utf-8-sig")
            del content
        except UnicodeDecodeError as error:
            raise UserError(f"{name} is not UTF-8: {error}.", "save it as UTF-8") from error
        kind = {".csv": _csv, ".json": _json}.get(path.suffix.lower(), _jsonl)
        rows = in_memory(name, kind(name, text))
    return Rows(rows, source)


def in_memory(name: str, rows: Iterable[Row]) -> list[Row]:
    """Return the rows as a list. UserError if there are none, or more than `MOST`."""
    loaded = list(islice(rows, MOST + 1))
    if not loaded:
        raise UserError(f"The data set {name} is empty.", "it needs at least one row")
    if len(loaded) > MOST:
        raise too_large(name, f"{MOST:,} rows")
    return loaded


def unfolded(name: str, batches: Iterator[Any]) -> Iterator[Row]:
    """Yield the rows of `pyarrow.RecordBatch`es or tables. UserError if they take more than
    `LARGEST` bytes of memory, as even small compressed data can."""
    size = number = 0
    while True:
        try:
            with limited_memory(LARGEST):
                batch = next(batches, None)
                rows: list[dict[str, Any]] = [] if batch is None else batch.to_pylist()
        except MemoryError as error:
            raise too_large(name) from error
        if batch is None:
            return
        for row in rows:
            size, number = size + _memory(row), number + 1
            if size > LARGEST:
                raise too_large(name)
            yield Row(f"{name}, row", number, row)


def _memory(value: Any) -> int:
    """Return the bytes of memory that a value and all values in it take."""
    inner: Any = cast(Any, value).values() if isinstance(value, dict) else value
    whole = sum(map(_memory, inner)) if isinstance(value, dict | list | tuple) else 0
    return sys.getsizeof(cast(object, value)) + whole


def too_large(name: str, most: str = f"{LARGEST >> 30} GiB of data") -> UserError:
    """Return the error for a data set that is too large for memory."""
    return UserError(f"{name} has more than {most}.", "use a part of it")


def _json(name: str, text: str) -> Iterator[Row]:
    """Return the rows of a JSON list of objects, or of an object's only list; else parse as
    JSONL."""
    try:
        data = parse_json(text, parse_int=_integer)
    except ValueError:
        return _jsonl(name, text)
    values: list[Any] = [data]
    if isinstance(data, dict) and not {*PROMPTS, *CHATS} & data.keys():
        values = list(cast("dict[str, Any]", data).values())
    lists = [cast("list[Any]", value) for value in values if isinstance(value, list)]
    if len(lists) != 1:
        return _jsonl(name, text)
    return (_row(f"{name}, row", number, row) for number, row in enumerate(lists[0], 1))


def _row(source: str, number: int, row: Any) -> Row:
    if not isinstance(row, dict):
        raise UserError(
            f"{source} {number} is {kind_of(row)}, not an object.",
            'write one object per line: {"prompt": "...", ...}',
        )
    return Row(source, number, cast("dict[str, Any]", row))


def _jsonl(name: str, text: str) -> Iterator[Row]:
    for number, line in enumerate(re.finditer(r".*\n?", text), 1):  # makes no copy of the text
        if not line[0].strip():
            continue
        try:
            row = parse_json(line[0], parse_int=_integer)
        except ValueError as error:
            where = f"{name}, line {number}"
            raise UserError(f"{where} is not JSON: {error}.", "one object per line") from error
        yield _row(f"{name}, line", number, row)


def _integer(digits: str) -> int | str:
    """Return an integer, or its digits as text if Python refuses to convert so many digits."""
    try:
        return int(digits)
    except ValueError:
        return digits


def _csv(name: str, text: str) -> Iterator[Row]:
    """Yield the rows of CSV text. Cells may be of any length; an empty cell is None. The separator
    is the most frequent of comma, semicolon and tab in the header, outside quotes."""
    limit = csv.field_size_limit(sys.maxsize)
    first = re.sub(r'"[^"]*"', "", text.lstrip().partition("\n")[0])
    separator = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator)
    header: list[str] = []
    line = 1
    try:
        for cells in reader:
            number, line = line, reader.line_num + 1
            if cells and not header:
                header = [cell.strip() for cell in cells]
            elif len(cells) > len(header):
                raise UserError(
                    f"{name}, line {number} has {len(cells)} cells, but the header {len(header)}.",
                    f'a text with {separator!r} in it needs quotes: "a{separator} b"',
                )
            elif cells:
                filled = [cell or None for cell in cells]
                yield Row(f"{name}, line", number, dict(zip(header, filled, strict=False)))
    except csv.Error as error:
        raise UserError(f"{name}, line {line} is not CSV: {error}.", "check its quotes") from error
    finally:
        csv.field_size_limit(limit)  # the limit is global to the process


def _parquet(name: str, content: bytes) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    try:
        file: Any = parquet.ParquetFile(pyarrow.BufferReader(content))
        footer = file.metadata
        if footer.num_rows > MOST:
            raise too_large(name, f"{MOST:,} rows")
        groups = map(footer.row_group, range(footer.num_row_groups))
        if sum(group.total_byte_size for group in groups) > LARGEST:
            raise too_large(name)
        yield from unfolded(name, file.iter_batches(BATCH, use_threads=False))
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = reason_of(error)
        raise UserError(f"{name} is not Parquet: {reason}.", "check the file") from error


def text(row: Row, *names: str, key: str = "") -> str:
    """Return the first value in the columns `names`, as text. UserError if all are empty; the
    error's hint says that the recipe's key `columns.{key}` can name another column."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str | int | float):
            return encodable(str(value))
    if filled := [name for name in names if row.get(name) is not None]:
        value = row.get(filled[0])
        parts = [*paths_in(row.columns)] if isinstance(value, dict) else []
        parts = [path for path in parts if path.startswith(f"{filled[0]}.")]
        raise UserError(
            f"{row.where} has {kind_of(value)}, not text, as its {filled[0]}.",
            f"columns.{key}={parts[0]} uses a part of it"
            if parts and key
            else "each row needs text there",
        )
    if empty := [name for name in names if name in row.columns]:
        raise UserError(
            f"{row.where} has an empty {empty[0]}.",
            "fill it in with text or a finite number, or leave the row out",
        )
    paths = [path for path in paths_in(row.columns) if row.get(path) is not None]
    others = [path for path in paths if path not in (*PROMPTS, *CHATS, "id")]
    other = f"; columns.{key}={others[0] if len(others) == 1 else 'NAME'} names another column"
    raise UserError(
        f"{row.where} has no {' or '.join(names)}.",
        f"each row needs text there; this one has {', '.join(paths) or 'nothing'}"
        f"{other * bool(key)}",
    )

"""Reading files that someone else may have written: regular ones, of limited size and nesting."""

import contextlib
import json
import os
import resource
import stat
import tomllib
from collections.abc import Generator, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from ictcli.errors import UserError

MIB = 1 << 20
LARGEST = {
    ".toml": 4 * MIB,
    **dict.fromkeys((".json", ".txt", ".jinja", ".model", ".py"), 64 * MIB),
    "tokenizer.json": 256 * MIB,
    ".jsonl": 8192 * MIB,
}
"""Largest size of a file in bytes, by name or suffix; others, such as weights, have no limit."""
LINE = 64 * MIB
DEPTH = 100
"""Most levels of tables and lists inside each other."""


class UnreadableError(UserError, OSError):
    """A file that is refused; an OSError too, so that code that skips unreadable files skips it."""


def check_file(path: Path, most: int | None = None) -> None:
    """Raise UnreadableError if a path is not a regular file (reading a pipe or /dev/zero may never
    end), or is larger than `most` bytes (default: by `LARGEST`). OSError if it does not exist."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise UnreadableError(f"{path} is not a regular file.", "put a regular file there")
    limit = most or LARGEST.get(path.name) or LARGEST.get(path.suffix)
    if limit and about.st_size > limit:
        raise UnreadableError(
            f"{path} has {about.st_size / MIB:,.0f} MiB; such a file may have "
            f"{limit // MIB:,} MiB at most.",
            "put the right file there",
        )


def open_plain(path: Path, most: int | None = None) -> BufferedReader:
    """Open a file for reading. Raises as `check_file`."""
    check_file(path, most)
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Return a file's content. Raises as `check_file`."""
    with open_plain(path, most) as file:
        return file.read()


def read_text(path: Path) -> str:
    """Return a file's content as text, line ends unchanged. Raises as `check_file`, and
    UnicodeDecodeError if it is not UTF-8."""
    return read_bytes(path).decode()


def lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file. Raises as `check_file`; UnreadableError for a line over `LINE`."""
    with open_plain(path) as file:
        while line := file.readline(LINE + 1):
            if len(line) > LINE:
                raise UnreadableError(
                    f"{path} has a line of more than {LINE // MIB} MiB.", "put the right file there"
                )
            yield line


def process_size() -> int:
    """Return the size of this process's address space in bytes; 1 if unknown."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 1


@contextlib.contextmanager
def limited_memory(more: int) -> Generator[None]:
    """Raise MemoryError if the process grows by more than `more` bytes within the context. There is
    no limit on macOS, where the size of a process is unknown."""
    size, (soft, hard) = process_size(), resource.getrlimit(resource.RLIMIT_AS)
    if size > 1:
        most = [size + more, *(limit for limit in (soft, hard) if limit >= 0)]
        resource.setrlimit(resource.RLIMIT_AS, (min(most), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def parse_json(data: str | bytes, **options: Any) -> Any:
    """Parse JSON. ValueError if it is invalid, or nested more than `DEPTH` deep."""
    try:
        return _shallow(json.loads(data, **options))
    except RecursionError as error:
        raise ValueError(_DEEP) from error


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. ValueError if it is invalid, or nested more than `DEPTH` deep."""
    try:
        return _shallow(tomllib.loads(text))
    except RecursionError as error:
        raise ValueError(_DEEP) from error


_DEEP = f"it is nested more than {DEPTH} deep"


def _shallow(data: Any, depth: int = DEPTH) -> Any:
    if isinstance(data, dict | list):
        if not depth:
            raise ValueError(_DEEP)
        table = cast(dict[str, Any] | list[Any], data)
        for value in table.values() if isinstance(table, dict) else table:
            _shallow(value, depth - 1)
    return cast(Any, data)

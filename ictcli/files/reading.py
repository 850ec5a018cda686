"""Reading files that somebody else may have written: plain ones alone, no larger and no deeper than
files of their kind are, in limited memory."""

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
"""Bytes of the largest file that is read, by name or suffix. Others, such as weights, may have any
size."""
LINE = 64 * MIB
DEPTH = 100
"""Tables and lists within each other."""


class UnreadableError(UserError, OSError):
    """A file that is not read. Code that skips I/O errors skips it too."""


def check_file(path: Path, most: int | None = None) -> None:
    """Raise UnreadableError where a path is no regular file, or one of more than `most` bytes, by
    default those of its kind in `LARGEST`: a pipe would be waited for, and /dev/zero has no end.
    OSError where there is nothing."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise UnreadableError(f"{path} is not a regular file.", "put one in its place")
    limit = most or LARGEST.get(path.name) or LARGEST.get(path.suffix)
    if limit and about.st_size > limit:
        raise UnreadableError(
            f"{path} has {about.st_size / MIB:,.0f} MiB, where {limit // MIB:,} are the most that "
            "such a file may have.",
            "put the right file in its place",
        )


def open_plain(path: Path, most: int | None = None) -> BufferedReader:
    """Return a file to read. Raises as `check_file`."""
    check_file(path, most)
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Return a file's content. Raises as `check_file`."""
    with open_plain(path, most) as file:
        return file.read()


def read_text(path: Path) -> str:
    """Return the same as text, whose line ends stay as they are. UnicodeDecodeError where it is not
    UTF-8."""
    return read_bytes(path).decode()


def lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file. Raises as `check_file`, and UnreadableError at a line longer than
    `LINE`."""
    with open_plain(path) as file:
        while line := file.readline(LINE + 1):
            if len(line) > LINE:
                raise UnreadableError(
                    f"{path} has a line of more than {LINE // MIB} MiB.", "put the file back"
                )
            yield line


def process_size() -> int:
    """Return bytes of this process's address space; 1 if unknown."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 1


@contextlib.contextmanager
def limited_memory(more: int) -> Generator[None]:
    """Raise MemoryError where the process grows by more than so many bytes. macOS, where its size
    is unknown, has no such limit."""
    size, (soft, hard) = process_size(), resource.getrlimit(resource.RLIMIT_AS)
    if size > 1:
        most = [size + more, *(limit for limit in (soft, hard) if limit >= 0)]
        resource.setrlimit(resource.RLIMIT_AS, (min(most), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def parse_json(data: str | bytes, **options: Any) -> Any:
    """Parse JSON of at most `DEPTH` levels. ValueError where it is none."""
    try:
        return _shallow(json.loads(data, **options))
    except RecursionError as error:
        raise ValueError(_DEEP) from error


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML of at most `DEPTH` levels. ValueError where it is none."""
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
        for each in table.values() if isinstance(table, dict) else table:
            _shallow(each, depth - 1)
    return cast(Any, data)

"""Read the files of a run as records."""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Any, TypeVar

from ictcli.errors import UserError
from ictcli.evaluation.record import Record
from ictcli.files import write_text
from ictcli.files.reading import lines, open_plain, parse_toml, read_bytes
from ictcli.runs.records import FORMAT, Environment, Stamp, StepTimings
from ictcli.text import command, shell_word

R = TypeVar("R", bound=Record)
Table = dict[str, Any]
TAIL = 1 << 16
"""Number of bytes at the end of a file in which its last line is searched for."""


def read_record(path: Path, kind: type[R], *, strict: bool = True) -> R | None:
    """Return a JSON or TOML file as a record; None if it does not exist.

    Raise UserError if the file is damaged or another version of ictcli wrote it. With
    `strict=False`, as for `runs ls`, `show` and `diff`, return None for a damaged file.
    """
    try:
        data = read_bytes(path)
        if path.suffix == ".toml":
            return kind.model_validate(parse_toml(data.decode()))
        if strict and Stamp.model_validate_json(data).format != FORMAT:
            raise UserError(
                f"{path} was written by another version of ictcli.", "read it with that version"
            )
        return kind.model_validate_json(data)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        if not strict:
            return None
        raise error if isinstance(error, OSError) else damaged(path) from error


def read_environment(run: Path) -> Environment:
    """Return environment.json of a run; a record without fields if it is missing or damaged."""
    return read_record(run / "environment.json", Environment, strict=False) or Environment()


def read_lines(path: Path, kind: type[R]) -> list[R]:
    """Return the lines of a JSONL file as records, without lines that a kill damaged."""
    records: list[R] = []
    with contextlib.suppress(OSError):
        for line in lines(path):
            if record := _record(line, kind):
                records.append(record)
    return records


def last_record(path: Path, kind: type[R]) -> R | None:
    """Return the last whole line of a JSONL file as a record, without reading the rest."""
    try:
        with open_plain(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            tail = file.read().splitlines(keepends=True)
    except OSError:
        return None
    records = (_record(line, kind) for line in reversed(tail))
    return next((record for record in records if record is not None), None)


def cut_lines(path: Path, steps: int) -> None:
    """Remove the lines of later steps than `steps` from a JSONL file, if it exists."""
    if path.exists():
        records = ((line, _record(line, StepTimings)) for line in lines(path))
        kept = [line for line, record in records if record is not None and record.step <= steps]
        write_text(path, b"".join(kept).decode())


def _record(line: bytes, kind: type[R]) -> R | None:
    """Return a line as a record; None if it is incomplete or not a valid record."""
    try:
        return kind.model_validate_json(line) if line.endswith(b"\n") else None
    except ValueError:
        return None


def damaged(path: Path) -> UserError:
    """Return the UserError for a damaged file of a run."""
    again = f"let ictcli write it again: rm {shell_word(path)}; {command('resume', path.parent)}"
    return UserError(f"{path} is damaged.", f"restore it from a copy, or {again}")


def changed(*paths: Path) -> float | None:
    """Return the newest modification time of files, in seconds since 1970; None if none exists."""
    times: list[float] = []
    for path in paths:
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times, default=None)


def size(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    total, paths = 0, [str(path)]
    while paths:
        with contextlib.suppress(OSError):
            current = paths.pop()
            if not Path(current).is_dir():
                total += os.lstat(current).st_size
                continue
            with os.scandir(current) as files:
                paths += [file.path for file in files if not file.is_symlink()]
    return total


def in_use(run: Path) -> bool:
    """Return whether a process holds the run's lock. The lock file is not created."""
    try:
        descriptor = os.open(run / ".lock", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(descriptor)
    return False

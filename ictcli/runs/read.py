"""Reading a run's files as records.

A strict reader stops at a damaged file and says how to go on; a forgiving one (`strict=False`, for
`runs ls`, `show` and `diff`) leaves a gap.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any, TypeVar, cast

from ictcli.errors import UserError
from ictcli.evaluation.record import Record
from ictcli.files import write_text
from ictcli.runs.records import FORMAT, Stamp, StepTimings

R = TypeVar("R", bound=Record)
Table = dict[str, Any]
TAIL = 1 << 16
"""Bytes at a file's end that its last line is looked for in."""


def read_record(path: Path, kind: type[R], *, strict: bool = True) -> R | None:
    """A JSON or TOML file as a record; None where it does not exist.

    Strict raises UserError where it is damaged or another version of ictcli wrote it; otherwise
    that is None too.
    """
    try:
        data = path.read_bytes()
        if path.suffix == ".toml":
            return kind.model_validate(tomllib.loads(data.decode()))
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


def read_lines(path: Path, kind: type[R]) -> list[R]:
    """The lines of a JSONL file as records, without those that a kill or power cut damaged."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError:
        return []
    records = (_record(line, kind) for line in lines)
    return [record for record in records if record is not None]


def last_record(path: Path, kind: type[R]) -> R | None:
    """The last whole line of a JSONL file as a record, without reading the rest."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read().splitlines(keepends=True)
    except OSError:
        return None
    records = (_record(line, kind) for line in reversed(lines))
    return next((record for record in records if record is not None), None)


def cut_lines(path: Path, steps: int) -> None:
    """Cut what a JSONL file holds after so many steps, if it is there."""
    if path.exists():
        lines = path.read_bytes().splitlines(keepends=True)
        records = ((line, _record(line, StepTimings)) for line in lines)
        kept = [line for line, record in records if record is not None and record.step <= steps]
        write_text(path, b"".join(kept).decode())


def _record(line: bytes, kind: type[R]) -> R | None:
    """None where the line has no end, or is no such record."""
    try:
        return kind.model_validate_json(line) if line.endswith(b"\n") else None
    except ValueError:
        return None


def damaged(path: Path) -> UserError:
    """For a file of a run's folder that is not what a run wrote."""
    return UserError(
        f"{path} is damaged.",
        f"put it back; or rm {path}, and ictcli resume {path.parent} makes it again",
    )


def table(path: Path) -> Table | None:
    """The object in a JSON or TOML file, or None where there is none that can be read."""
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError):
        return None
    return cast(Table, data) if isinstance(data, dict) else None


def within(data: object, *keys: str) -> Any:
    """data[key][key]..., or None where it ends before."""
    for key in keys:
        if not isinstance(data, dict):
            return None
        data = cast(Table, data).get(key)
    return data


def lines(path: Path) -> list[Table]:
    """The lines of a JSONL file that are objects; others are left out."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found = [_object(line) for line in text.splitlines()]
    return [line for line in found if line is not None]


def _object(line: str) -> Table | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast(Table, data) if isinstance(data, dict) else None


def number(value: object) -> float | None:
    """A number that is one, and finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if abs(value) < float("inf") else None
    except OverflowError:  # an integer that no float holds
        return None


def scores_of(found: object) -> dict[str, dict[str, float]]:
    """The pass@k and maj@k of an evaluation or of a part of a summary, whose value, low and high
    are numbers."""
    scores: dict[str, dict[str, float]] = {}
    for name, told in (cast(Table, found) if isinstance(found, dict) else {}).items():
        parts = {part: number(within(told, part)) for part in ("value", "low", "high")}
        known = {part: value for part, value in parts.items() if value is not None}
        if re.fullmatch(r"(pass|maj)@[1-9][0-9]{0,8}", name) and len(known) == len(parts):
            scores[name] = known
    return scores


def count(value: object) -> int | None:
    found = number(value)
    return None if found is None else int(found)


def changed(*paths: Path) -> float | None:
    """When the newest of these was changed, in seconds since 1970; None where none is there."""
    found: list[float] = []
    for path in paths:
        try:
            found.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(found, default=None)


def size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    try:
        if not path.is_dir():
            return path.lstat().st_size
        with os.scandir(path) as found:
            return sum(size(Path(one.path)) for one in found if not one.is_symlink())
    except OSError:
        return 0


def in_use(run: Path) -> bool:
    """Whether a process holds the run's lock. Asking never takes the lock from one that wants it
    for longer than an instant, nor makes a file."""
    path = run / ".lock"
    if not path.exists():
        return False
    if sys.platform == "win32":
        return _in_use_there(path)
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _in_use_there(path: Path) -> bool:
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False

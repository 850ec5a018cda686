"""The folder of an evaluation: which one it is, and that no other process writes to it.

| path | is |
|---|---|
| settings.json | all that decides the samples; `--resume` needs the same |
| BENCH.jsonl | one line a sample, n a problem, in the order of the problems |
| MODEL/BENCH.jsonl | the same, where there are several models |
| timings.jsonl | seconds of each chunk of problems |
| results.json, results.md | the figures; see `ictcli.evaluation.results` |
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Callable, Generator
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import JsonValue

from ictcli.errors import RunFailedError, UserError
from ictcli.evaluation.provenance import Provenance, difference_of
from ictcli.files import is_leftover, write_json

SETTINGS = "settings.json"
REPLACED = (SETTINGS, "results.json", "results.md")
"""Files that are written beside and renamed: a kill may leave such a one under another name."""


@contextlib.contextmanager
def opened(
    out: Path | None,
    base: Path,
    name: str,
    provenance: Provenance,
    *,
    resume: bool,
    say: Callable[[str], None],
) -> Generator[tuple[Path, bool]]:
    """The folder of an evaluation, locked, and whether one is resumed there: `out`, or base/name
    with a number behind it where that is taken; with `resume` `out`, or the newest folder in `base`
    with these settings. UserError where `out` holds anything else, which is left as it is."""
    settings: dict[str, JsonValue] = provenance.model_dump(mode="json")
    if out is None and resume:
        out = _newest(base, name, settings, say)
    with _faults(out or base):
        if out is not None:
            check(out)  # before anything is written there
        folder = _make(base, name) if out is None else out
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UserError(
                f"The folder {folder} is in use by another process.",
                "wait for it, stop it with Ctrl-C, or choose another folder with --out",
            ) from None
    try:
        with _faults(folder):
            resumed = _take(folder, settings, resume=resume)
            _sweep(folder)
        yield folder, resumed
    finally:
        lock.release()


def check(out: Path) -> None:
    """UserError where a folder is no place for an evaluation; nothing is written."""
    with _faults(out):
        _recorded(out)


@contextlib.contextmanager
def _faults(folder: Path) -> Generator[None]:
    """Say of a folder that cannot be made or written what to do about it."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RunFailedError(
                f"No space is left on the disk ({folder}).",
                "free some, or --out OTHER takes a folder on another disk",
            ) from error
        denied = error.errno in (errno.EACCES, errno.EROFS, errno.EPERM)
        raise (RunFailedError if denied else UserError)(
            f"The folder {folder} cannot be written: {error.strerror or error}.",
            "--out OTHER takes another folder: a new one, an empty one, or an evaluation's",
        ) from error


def _take(folder: Path, settings: dict[str, JsonValue], *, resume: bool) -> bool:
    """Hold the folder's settings against these, or write them into an empty folder; gives whether
    there were any."""
    before = _recorded(folder)
    if before is None:
        write_json(folder / SETTINGS, settings)
        return False
    if not resume:
        raise UserError(
            f"The folder {folder} holds an evaluation already.",
            "--resume goes on with it; --out OTHER takes another folder",
        )
    if differs := difference_of(before, settings):
        raise UserError(
            f"The evaluation in {folder} has {differs}.",
            "the settings it was begun with continue it; --out OTHER begins another",
        )
    return True


def _recorded(folder: Path) -> dict[str, JsonValue] | None:
    """The settings of the evaluation in a folder; None where it is missing or empty. UserError
    where it holds anything else."""
    if not folder.exists():
        return None
    hint = "--out OTHER takes another folder: a new one, an empty one, or an evaluation's"
    if (folder / SETTINGS).exists():
        settings = read(folder)
        if settings is None:
            raise UserError(
                f"{folder / SETTINGS} cannot be read: it is no JSON of an evaluation.", hint
            )
        return settings
    others = [path.name for path in folder.iterdir() if not _is_trace(path)]
    if others:
        raise UserError(
            f"The folder {folder} is not empty and no evaluation's: it holds {min(others)}, "
            f"and no {SETTINGS}.",
            hint,
        )
    return None


def _is_trace(path: Path) -> bool:
    """Whether it is what an evaluation leaves that was killed before it wrote its settings."""
    return path.name == ".lock" or _is_left(path)


def _is_left(path: Path) -> bool:
    """Whether it is what a killed write of one of our files left."""
    ours = path.name.startswith(tuple(f".{name}." for name in REPLACED))
    return ours and is_leftover(path) and path.is_file()


def _sweep(folder: Path) -> None:
    """Remove what killed writes left in an evaluation's folder; what else lies there stays."""
    for path in [path for path in folder.iterdir() if _is_left(path)]:
        path.unlink(missing_ok=True)


def _newest(
    base: Path, name: str, settings: dict[str, JsonValue], say: Callable[[str], None]
) -> Path | None:
    """The newest folder with these settings. Where there is none, `say` so."""
    files = [path for path in base.glob(f"*/{SETTINGS}") if path.is_file()]
    files.sort(key=lambda file: _number(file.parent.name, name), reverse=True)
    reason: str | None = None
    for file in files:
        differs = difference_of(read(file.parent) or {}, settings)
        if differs is None:
            return file.parent
        if reason is None and file.parent.name.startswith(name):
            reason = f"note: {file.parent} is not resumed: it has {differs}"
    say(reason or f"note: nothing to resume in {base}; a new evaluation begins")
    return None


def _number(folder: str, name: str) -> int:
    """The number that `_make` gave a folder: no clock says what is newer; 0 where it has another
    name."""
    match = re.fullmatch(re.escape(name) + r"(?:-(\d+))?", folder)
    return int(match[1] or 1) if match else 0


def read(folder: Path) -> dict[str, JsonValue] | None:
    """The settings of an evaluation's folder; None where they are none."""
    try:
        settings: JsonValue = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (ValueError, OSError):
        return None
    return settings if isinstance(settings, dict) and "format" in settings else None


def _make(base: Path, name: str) -> Path:
    """base/name, or base/name-2, -3, ...: one that was not there."""
    base.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = base / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
            continue
        return path


class Timings:
    """Seconds of each chunk of a model on a benchmark, in timings.jsonl."""

    def __init__(self, folder: Path, model: str, benchmark: str) -> None:
        self._path = folder / "timings.jsonl"
        self._key = {"model": model, "benchmark": benchmark}

    def add(self, first: int, seconds: float) -> None:
        """Note a chunk by its first problem. After a line torn by a kill a new line is begun."""
        line = {**self._key, "first": first, "seconds": round(seconds, 3)}
        with self._path.open("ab+") as file:
            file.seek(-min(1, file.tell()), os.SEEK_END)
            torn = file.read(1) not in (b"", b"\n")
            file.write(b"\n" * torn + json.dumps(line, ensure_ascii=False).encode() + b"\n")

    def read(self) -> dict[int, float]:
        """Seconds by first problem; torn lines are left out."""
        seconds: dict[int, float] = {}
        for raw in self._path.read_bytes().split(b"\n") if self._path.exists() else ():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                line = json.loads(raw)
                if {key: line[key] for key in self._key} == self._key:
                    seconds[int(line["first"])] = float(line["seconds"])
        return seconds

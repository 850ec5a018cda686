"""The folder of an evaluation: which one it is, and that no other process writes to it.

| path | is |
|---|---|
| settings.json | all that decides the samples; `--resume` needs the same |
| BENCH.jsonl | one line a sample, n a problem, in the order of the problems |
| MODEL/BENCH.jsonl | the same, where there are several models |
| timings.jsonl | seconds of each chunk of problems |
| results.json, results.md | what was found; see `ictcli.evaluation.report` |
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, cast

from filelock import FileLock, Timeout

from ictcli.errors import UserError
from ictcli.evaluation.identity import difference_of
from ictcli.files import sweep, write_json

SETTINGS = "settings.json"


@contextlib.contextmanager
def opened(
    out: Path | None,
    base: Path,
    name: str,
    settings: dict[str, Any],
    *,
    resume: bool,
    say: Callable[[str], None],
) -> Generator[Path]:
    """The folder of an evaluation, locked: `out`, or base/name with a number behind it where that
    is taken; with `resume` `out`, or the newest folder in `base` with these settings. UserError
    where `out` holds another evaluation."""
    if out is None and resume:
        out = _newest(base, name, settings, say)
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
        sweep(folder)
        _take(folder, settings, resume=resume)
        yield folder
    finally:
        lock.release()


def _take(folder: Path, settings: dict[str, Any], *, resume: bool) -> None:
    """Hold the folder's settings against these, or write them where there are none."""
    if (folder / SETTINGS).exists():
        if not resume:
            raise UserError(
                f"The folder {folder} holds an evaluation already.",
                "--resume goes on with it; --out OTHER takes another folder",
            )
        if differs := difference_of(read(folder), settings):
            raise UserError(
                f"The evaluation in {folder} has {differs}.",
                "the settings it was begun with continue it; --out OTHER begins another",
            )
        return
    write_json(folder / SETTINGS, settings)


def _newest(
    base: Path, name: str, settings: dict[str, Any], say: Callable[[str], None]
) -> Path | None:
    """The newest folder with these settings. Where there is none, `say` so."""
    files = [path for path in base.glob(f"*/{SETTINGS}") if path.is_file()]
    files.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    differs: str | None = None
    for file in files:
        found = difference_of(read(file.parent), settings)
        if found is None:
            return file.parent
        if differs is None and file.parent.name.startswith(name):
            differs = f"note: {file.parent} is not resumed: it has {found}"
    say(differs or f"note: nothing to resume in {base}; a new evaluation begins")
    return None


def read(folder: Path) -> dict[str, Any]:
    """The settings of an evaluation's folder; those that are no JSON object are like no others."""
    try:
        found = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


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


def add_timing(folder: Path, model: str, benchmark: str, first: int, seconds: float) -> None:
    """Note the seconds of a chunk; behind a line that a kill has torn, on a line of its own."""
    line = {"model": model, "benchmark": benchmark, "first": first, "seconds": round(seconds, 3)}
    with (folder / "timings.jsonl").open("ab+") as file:
        file.seek(-min(1, file.tell()), os.SEEK_END)
        torn = file.read(1) not in (b"", b"\n")
        file.write(b"\n" * torn + json.dumps(line, ensure_ascii=False).encode() + b"\n")


def timings(folder: Path, model: str, benchmark: str) -> Sequence[tuple[int, float]]:
    """(first problem, seconds) of the chunks of earlier sittings; torn lines are left out."""
    path = folder / "timings.jsonl"
    found: list[tuple[int, float]] = []
    for raw in path.read_bytes().split(b"\n") if path.exists() else ():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            line = json.loads(raw)
            if (line["model"], line["benchmark"]) == (model, benchmark):
                found.append((int(line["first"]), float(line["seconds"])))
    return found

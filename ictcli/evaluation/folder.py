"""The folder of an evaluation: chosen, checked, and locked against other processes.

| path | is |
|---|---|
| settings.json | everything that decides the samples; `--resume` needs the same |
| BENCH.jsonl | a line per sample, n per problem, in the order of the problems |
| MODEL/BENCH.jsonl | the same, where there are several models |
| results.json, results.md | the figures; see `ictcli.evaluation.record` |
"""

import contextlib
import errno
import re
from collections.abc import Callable, Generator
from itertools import count
from pathlib import Path

from pydantic import JsonValue

from ictcli.errors import RunFailedError, UserError, is_disk_full
from ictcli.files import (
    check_inside,
    is_leftover,
    locked,
    make_folder,
    numbered,
    remove_empty,
    write_json,
)
from ictcli.files.origin import Origin, difference
from ictcli.files.reading import UnreadableError, parse_json, read_text

SETTINGS = "settings.json"
OTHER_FOLDER = "--out OTHER takes another folder: a new one, an empty one, or an evaluation's"


@contextlib.contextmanager
def opened(
    out: Path | None,
    base: Path,
    name: str,
    settings: Origin,
    *,
    resume: bool,
    say: Callable[[str], None],
) -> Generator[Path]:
    """Yield the locked folder of an evaluation: `out`, else base/name, or base/name-2, -3, ... if
    taken. With `resume` and no `out`, the newest folder in `base` with the same settings. UserError
    where the folder holds anything else; it is left as it is."""
    if out is None and resume:
        out = _newest(base, name, settings, say)
    with contextlib.ExitStack() as closing:
        with _writing(out or base):
            folder = _new_folder(base, name) if out is None else out
            _saved_settings(folder)  # checked before anything is written there
            closing.callback(remove_empty, [folder] if out is None else make_folder(folder))
            closing.enter_context(locked(folder))
            saved = _saved_settings(folder)
            if saved is None:
                write_json(folder / SETTINGS, settings)
            elif not resume:
                raise UserError(
                    f"The folder {folder} holds an evaluation already.",
                    "--resume continues it; --out OTHER takes another folder",
                )
            elif differs := difference(saved, settings):
                raise UserError(
                    f"The evaluation in {folder} has {differs}.",
                    "the settings it was begun with continue it; --out OTHER begins another",
                )
        yield folder


def check(out: Path) -> None:
    """Raise UserError where a folder cannot take an evaluation. Writes nothing."""
    with _writing(out):
        _saved_settings(out)


@contextlib.contextmanager
def _writing(folder: Path) -> Generator[None]:
    try:
        yield
    except UnreadableError:
        raise
    except OSError as error:
        if is_disk_full(error):
            raise RunFailedError(
                f"No space is left on the disk ({folder}).",
                "free some, or --out OTHER takes a folder on another disk",
            ) from error
        denied = error.errno in (errno.EACCES, errno.EROFS, errno.EPERM)
        raise (RunFailedError if denied else UserError)(
            f"The folder {folder} cannot be written: {error.strerror or error}.", OTHER_FOLDER
        ) from error


def _saved_settings(folder: Path) -> Origin | None:
    """Return the settings of the evaluation in a folder; None where it is missing, or empty but for
    what a killed write left. UserError where it holds anything else, or may not be read (see
    `check_inside`)."""
    file = folder / SETTINGS
    paths = folder.iterdir() if folder.exists() and not file.exists() else ()
    if others := {path.name for path in paths if not is_leftover(path)} - {".lock"}:
        raise UserError(
            f"The folder {folder} is not empty and no evaluation's: it holds {min(others)}, "
            f"and no {SETTINGS}.",
            OTHER_FOLDER,
        )
    check_inside(folder, plain=True)
    settings = _read(file)
    if settings is None and file.exists():
        raise UserError(f"{file} cannot be read: it is not JSON of an evaluation.", OTHER_FOLDER)
    return settings


def _read(path: Path) -> Origin | None:
    try:
        settings: JsonValue = parse_json(read_text(path))
    except (ValueError, OSError):
        return None
    return settings if isinstance(settings, dict) and "format" in settings else None


def _newest(base: Path, name: str, settings: Origin, say: Callable[[str], None]) -> Path | None:
    """Return the newest folder with these settings, by the number after its name: clocks may be
    wrong. If there is none, `say` why."""
    reason = f"nothing to resume in {base}; a new evaluation begins"
    first = [(1, base / name)] * (base / name).is_dir()
    for _, folder in reversed(first + numbered(base, re.escape(name) + r"-(\d+)")):
        if saved := _read(folder / SETTINGS):
            if not (differs := difference(saved, settings)):
                return folder
            reason = f"{folder} is not resumed: it has {differs}"
    say(f"note: {reason}")
    return None


def _new_folder(base: Path, name: str) -> Path:
    """Make base/name, or base/name-2, -3, ...: the first that is not there."""
    base.mkdir(parents=True, exist_ok=True)
    path = base / name
    for number in count(2):
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            break
        path = base / f"{name}-{number}"
    return path

"""Choose, check and lock the folder of an evaluation.

| path | content |
|---|---|
| settings.json | all settings that decide the samples; `--resume` needs the same settings |
| BENCH.jsonl | a line per sample, n per problem, in the order of the problems |
| MODEL/BENCH.jsonl | the same for each model, if there are several |
| results.json, results.md | the scores; see `ictcli.evaluation.record` |
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
OTHER_FOLDER = "--out OTHER uses another folder: a new or an empty one, or an evaluation's"


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
    if the folder holds other files, or an evaluation that these arguments do not resume."""
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
                    "--resume continues it; --out OTHER uses another folder",
                )
            elif differs := difference(saved, settings):
                raise UserError(
                    f"The evaluation in {folder} has other settings: {differs}.",
                    "the same settings continue it; --out OTHER starts a new evaluation",
                )
        yield folder


def check(out: Path) -> None:
    """Raise UserError if a folder holds anything but an evaluation. Nothing is written."""
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
                "free some space, or use a folder on another disk: --out OTHER",
            ) from error
        denied = error.errno in (errno.EACCES, errno.EROFS, errno.EPERM)
        raise (RunFailedError if denied else UserError)(
            f"The folder {folder} cannot be written: {error.strerror or error}.", OTHER_FOLDER
        ) from error


def _saved_settings(folder: Path) -> Origin | None:
    """Return the settings of the evaluation in a folder; None if the folder is missing, or holds
    only leftovers of a killed process. UserError if it holds anything else (see `check_inside`)."""
    file = folder / SETTINGS
    paths = folder.iterdir() if folder.exists() and not file.exists() else ()
    if others := {path.name for path in paths if not is_leftover(path)} - {".lock"}:
        raise UserError(
            f"The folder {folder} holds no evaluation: it has {min(others)}, but no {SETTINGS}.",
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
    """Return the newest of base/name, base/name-2, -3, ... with these settings: the one with the
    highest number, as dates may be wrong. If no folder has them, return None and `say` why."""
    reason = f"nothing to resume in {base}; a new evaluation starts"
    first = [(1, base / name)] * (base / name).is_dir()
    for _, folder in reversed(first + numbered(base, re.escape(name) + r"-(\d+)")):
        if saved := _read(folder / SETTINGS):
            if not (differs := difference(saved, settings)):
                return folder
            reason = f"{folder} is not resumed, as it has other settings: {differs}"
    say(f"note: {reason}")
    return None


def _new_folder(base: Path, name: str) -> Path:
    """Create and return the first of base/name, base/name-2, -3, ... that does not exist."""
    base.mkdir(parents=True, exist_ok=True)
    path = base / name
    for number in count(2):
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            break
        path = base / f"{name}-{number}"
    return path

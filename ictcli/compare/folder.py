"""Open and lock the folder of a comparison, and say how to continue after an error.

| path | content |
|---|---|
| LABEL-sSEED/ | a run (see `ictcli.runs`); its log.txt holds its messages |
| tune/LABEL-KEYVALUE/ | the first tuning run of a value; names of the others end in -sSEED |
| comparison.json | a `Comparison` |
| report.html, report.md | the report (see `ictcli.compare.report`) |
"""

import contextlib
from collections.abc import Generator
from pathlib import Path

from ictcli.errors import InterruptedRunError, RunFailedError, UserError, is_disk_full
from ictcli.files import locked, make_folder, remove_empty
from ictcli.runs import is_run
from ictcli.runs.read import read_record
from ictcli.runs.records import RunRecord
from ictcli.tables.numbers import counted

OTHER = "--out OTHER uses another folder"
GOES_ON = "the same command continues"


class Reported(RunRecord):
    """The fields that are read from a comparison.json of any version."""

    seeds: list[int]


def notes_on_report(folder: Path, seeds: int) -> list[str]:
    """Return a note if the folder holds a report on fewer seeds."""
    reported = read_record(folder / "comparison.json", Reported, strict=False)
    if reported is None or seeds <= len(reported.seeds):
        return []
    return [
        f"this comparison already has a report on {counted(len(reported.seeds), 'seed')}: adding "
        "seeds until a difference is significant gives false positives that p ignores"
    ]


@contextlib.contextmanager
def opened(folder: Path) -> Generator[None]:
    """Lock the folder, and create it if it is missing; a new folder that is still empty at the end
    is removed. UserError if another process has locked it, or if it is a file or the folder of a
    run. The errors for a full disk and for Ctrl-C say how to continue."""
    if is_run(folder):
        raise UserError(f"{folder} is the folder of a run, not of a comparison.", OTHER)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file.", OTHER)
    created, is_locked = list[Path](), False
    try:
        created = make_folder(folder)
        with locked(folder):
            is_locked = True
            yield
    except KeyboardInterrupt:
        raise InterruptedRunError(
            "Interrupted: steps after a run's last checkpoint will be repeated.", GOES_ON
        ) from None
    except OSError as error:
        if is_disk_full(error):
            raise full(error.filename or folder) from error
        if is_locked or isinstance(error, UserError):
            raise
        why = error.strerror or error
        raise RunFailedError(f"The folder {folder} cannot be written: {why}.", OTHER) from error
    finally:
        remove_empty(created)


def full(where: Path | str) -> RunFailedError:
    """Return the error that ends a comparison on a full disk."""
    return RunFailedError(
        f"No space is left on the disk ({where}).",
        f"free some space, then {GOES_ON}; --dry-run shows how much is needed",
    )

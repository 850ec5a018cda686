"""The folder of a comparison: that no other process works in it, and what to do when it ends early.

| path | is |
|---|---|
| LABEL-sSEED/ | a run (see `ictcli.runs`); its log.txt holds its messages |
| tune/LABEL-KEYVALUE/ | a tuning run; those after the first of a value end with their seed |
| comparison.json | a `Comparison` |
| report.html, report.md | the same to read; see `ictcli.compare.report` |
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

OTHER = "--out OTHER takes another folder"
GOES_ON = "the same command continues"


class Reported(RunRecord):
    """The fields on its report in a comparison.json of any version."""

    seeds: list[int]


def notes_on_report(folder: Path, seeds: int) -> list[str]:
    """Return a note if the folder has a report of fewer seeds."""
    reported = read_record(folder / "comparison.json", Reported, strict=False)
    if reported is None or seeds <= len(reported.seeds):
        return []
    return [
        f"the report was made before with {counted(len(reported.seeds), 'seed')}: adding "
        "seeds until a difference is significant finds some that are not there, and p ignores that"
    ]


@contextlib.contextmanager
def opened(folder: Path) -> Generator[None]:
    """Open the folder, made if missing, and lock it; remove it if nothing was done there. UserError
    if another process compares there, or if it is a file or the folder of a run. Within, a full
    disk and Ctrl-C end with what to do next."""
    if is_run(folder):
        raise UserError(f"{folder} is the folder of a run, not of a comparison.", OTHER)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file.", OTHER)
    made, within = list[Path](), False
    try:
        made = make_folder(folder)
        with locked(folder):
            within = True
            yield
    except KeyboardInterrupt:
        raise InterruptedRunError(
            "Interrupted: what came after the last checkpoint of a run will be done again.", GOES_ON
        ) from None
    except OSError as error:
        if is_disk_full(error):
            raise full(error.filename or folder) from error
        if within or isinstance(error, UserError):
            raise
        why = error.strerror or error
        raise RunFailedError(f"The folder {folder} cannot be written: {why}.", OTHER) from error
    finally:
        remove_empty(made)


def full(where: Path | str) -> RunFailedError:
    """Return the error that ends a comparison on a full disk."""
    return RunFailedError(
        f"No space is left on the disk ({where}).", f"free some: {GOES_ON}; --dry-run says how much"
    )

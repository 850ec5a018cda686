"""The folder of a comparison: that no other process works in it, that its report loses nothing, and
what to do when it ends early.

| path | is |
|---|---|
| LABEL-sSEED/ | a run (see `ictcli.runs`); its log.txt holds its messages |
| tune/LABEL-KEYVALUE/ | a tuning run; those after the first of a value end with their seed |
| comparison.json | a `Comparison` |
| report.html, report.md | the same to read; see `ictcli.compare.report` |
"""

import contextlib
from collections.abc import Collection, Generator
from pathlib import Path

from ictcli.errors import InterruptedRunError, RunFailedError, UserError, is_disk_full
from ictcli.files import locked, make_folder, remove_empty
from ictcli.runs import is_run
from ictcli.runs.read import read_record
from ictcli.runs.records import RunRecord
from ictcli.tables.numbers import counted, listed
from ictcli.text import shell_word

OTHER = "--out OTHER takes another folder"
GOES_ON = "the same command goes on from there"


class ReportedVariant(RunRecord):
    label: str


class Reported(RunRecord):
    """What a comparison.json of any version says of its report."""

    command: str
    seeds: list[int]
    variants: list[ReportedVariant]


def check_report(folder: Path, labels: Collection[str], seeds: Collection[int]) -> list[str]:
    """A note if the folder has a report of fewer seeds. UserError if it has one with a variant or a
    seed that a new one would lack."""
    path = folder / "comparison.json"
    reported = read_record(path, Reported, strict=False)
    if reported is None:
        return []
    lost = [each.label for each in reported.variants if each.label not in labels]
    fewer = sum(seed not in seeds for seed in reported.seeds)
    if lost or fewer:
        parts = [*lost, *([counted(fewer, "seed")] if fewer else [])]
        raise UserError(
            f"{folder / 'report.html'} is of a larger comparison: this one would replace it by a "
            f"report without {listed(parts)}.",
            f"{reported.command} makes that one again; {OTHER}"
            + f"; rm {shell_word(path)} gives the report up and keeps its runs" * (not fewer),
        )
    if len(seeds) == len(reported.seeds):
        return []
    return [
        f"the report was made before with {counted(len(reported.seeds), 'seed')}: who adds seeds "
        "until a difference is significant finds some that are not there, and p does not know it"
    ]


@contextlib.contextmanager
def opened(folder: Path) -> Generator[None]:
    """The folder, made if missing, and locked; removed again if nothing was done there.
    UserError if another process compares there, or if it is a file or the folder of a run. Within,
    a full disk and Ctrl-C end with what to do next."""
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
    """What ends a comparison on a disk that is full."""
    return RunFailedError(
        f"No space is left on the disk ({where}).", f"free some: {GOES_ON}; --dry-run says how much"
    )

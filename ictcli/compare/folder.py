"""The folder of a comparison: that no other process works in it, that its report loses nothing, and
what to do when it ends early.

| path | is |
|---|---|
| LABEL-sSEED/ | a run (see `ictcli.runs`); with --jobs, log.txt holds its messages |
| tune/LABEL-KEYVALUE/ | a tuning run; those after the first of a value end with their seed |
| tuning.json | that the folder is tuned by `ictcli.compare.tuning` of today |
| looks.json | `Looks`: after how many seeds a report was made |
| comparison.json | a `Comparison` |
| report.html, report.md | the same to read; see `ictcli.compare.report` |
"""

import contextlib
from collections.abc import Collection, Generator
from pathlib import Path

from ictcli.compare.spending import level_of
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


class Looks(RunRecord):
    """After how many seeds each report was made, and how many were planned."""

    planned: int
    seeds: list[int]

    @property
    def level(self) -> float:
        """At which the last of them is tested."""
        return level_of(self.seeds, self.planned)


def looks_of(folder: Path, seeds: int, planned: int | None) -> Looks:
    """The looks at a folder, with one more at so many seeds. What was planned at the first look
    stays the plan: by default, and at least, the seeds of the first."""
    earlier = read_record(folder / "looks.json", Looks, strict=False)
    if earlier is None:
        reported = read_record(folder / "comparison.json", Reported, strict=False)
        before = [len(reported.seeds)] if reported else []
        earlier = Looks(planned=(before or [max(planned or 0, seeds)])[0], seeds=before)
    if seeds < max(earlier.seeds, default=0):
        raise UserError(
            f"{folder} was looked at with {max(earlier.seeds)} seeds: a report of {seeds} of them "
            "would be chosen after looking.",
            f"--seeds {max(earlier.seeds)}, or more; {OTHER}",
        )
    return Looks(planned=earlier.planned, seeds=sorted({*earlier.seeds, seeds}))


def check_report(folder: Path, labels: Collection[str], seeds: Collection[int]) -> None:
    """UserError if the folder has a report with a variant or a seed that a new one would lack."""
    path = folder / "comparison.json"
    reported = read_record(path, Reported, strict=False)
    if reported is None:
        return
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


def check_kind(folder: Path, recipes: Collection[str]) -> None:
    """UserError if the folder has a report that a new one of these recipes would replace by less: a
    study's with other recipes, or that of a comparison; without recipes, that of a study."""
    if recipes and (folder / "comparison.json").exists():
        raise UserError(f"{folder} is the folder of a comparison, not of a study.", OTHER)
    if not (folder / "runs.csv").exists():
        return
    if not recipes:
        raise UserError(f"{folder} is the folder of a study, not of a comparison.", OTHER)
    compared = {path.parent.name for path in folder.glob("*/comparison.json")}
    if lost := sorted(compared.difference(recipes)):
        folders = " ".join(shell_word(folder / name) for name in lost)
        raise UserError(
            f"{folder / 'report.html'} is of a larger study: this one would replace it by a report "
            f"without {listed(lost)}.",
            f"name all of them in the study; {OTHER}; rm -r {folders} gives up what is there",
        )


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

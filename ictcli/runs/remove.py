"""Removing runs, and checkpoints that no run needs any more."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ictcli.errors import UserError
from ictcli.files import check_inside, drop
from ictcli.runs import checkpoints
from ictcli.runs.checkpoints import DAMAGE
from ictcli.runs.folder import Run
from ictcli.runs.read import in_use, size


@dataclass(frozen=True)
class OldCheckpoint:
    """A checkpoint that may go."""

    run: Path
    path: Path
    bytes: int


def check_removable(run: Path) -> None:
    """UserError for what is no run folder of its own, or is trained now."""
    if run.is_symlink() or not os.path.lexists(run / "recipe.toml"):  # a damaged one too
        why = "is a link" if run.is_symlink() else "has no recipe.toml"
        raise UserError(
            f"{run} is not a run folder: it {why}.", "ictcli runs ls lists the runs there are"
        )
    for folder in (run, run.absolute().parent):
        if in_use(folder):
            works = "is being trained" if folder == run else "belongs to a comparison that runs"
            raise UserError(f"{run} {works} now.", "stop it with Ctrl-C, or wait for its end")


def remove_run(run: Path) -> int:
    """Remove a run and all that lies in its folder; returns how many bytes that frees. UserError
    as `check_removable` raises it."""
    check_removable(run)
    taken = size(run)
    lock = run / ".lock"
    if lock.is_symlink() or (lock.exists() and not lock.is_file()):
        lock.rename(run / ".lock.damaged")  # nobody holds it
    opened = Run(run)
    opened.lock()
    with opened:
        drop(run)
    return taken


def old_checkpoints(runs: Iterable[Path], *, finished: bool = False) -> list[OldCheckpoint]:
    """The checkpoints of runs that are neither the best nor what a resume goes on from, which is
    the newest that is whole, nor newer than that. Of `finished` runs all but the best."""
    return [
        OldCheckpoint(run, path, size(path))
        for run in runs
        for path in _old(run, keep_newest=not (finished and (run / "summary.json").is_file()))
    ]


def _old(run: Path, *, keep_newest: bool) -> list[Path]:
    folders = checkpoints.folders(run)
    best = checkpoints.best_of(run)
    newest = next((at for at in reversed(range(len(folders))) if _whole(folders[at])), None)
    if keep_newest:
        folders = [] if newest is None else folders[:newest]
    return [path for path in folders if path != best]


def _whole(path: Path) -> bool:
    try:
        checkpoints.check(path)
    except (*DAMAGE, UserError):
        return False
    return True


def remove_checkpoints(old: Iterable[OldCheckpoint]) -> None:
    """UserError if a run is trained now, or may not be read (see `check_inside`)."""
    for checkpoint in old:
        check_inside(checkpoint.run)
        run = Run(checkpoint.run)
        run.lock()
        with run:
            drop(checkpoint.path)

"""Removing checkpoints that no run needs any more."""

from collections.abc import Iterable
from pathlib import Path

from ictcli.errors import UserError
from ictcli.files import check_inside, drop, locked
from ictcli.runs import checkpoints
from ictcli.runs.checkpoints import DAMAGE


def old_checkpoints(run: Path, *, finished: bool = False) -> list[Path]:
    """The checkpoints of a run that are neither the best nor what a resume goes on from, which is
    the newest that is whole, nor newer than that. Of a `finished` run all but the best."""
    folders, best = checkpoints.folders(run), checkpoints.best_of(run)
    if not (finished and (run / "summary.json").is_file()):
        newest = next((at for at in reversed(range(len(folders))) if _whole(folders[at])), 0)
        folders = folders[:newest]
    return [path for path in folders if path != best]


def _whole(path: Path) -> bool:
    try:
        checkpoints.check(path)
    except (*DAMAGE, UserError):
        return False
    return True


def remove_checkpoints(old: Iterable[Path]) -> None:
    """UserError if a run is trained now, or may not be read (see `check_inside`)."""
    for path in old:
        check_inside(path.parents[1])
        with locked(path.parents[1], "run folder", "--run"):
            drop(path)

"""Removing runs, and checkpoints that no run needs any more."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ictcli.engine.models import typed_path
from ictcli.errors import UserError
from ictcli.files import check_inside, drop, locked
from ictcli.files.origin import flat
from ictcli.runs import checkpoints
from ictcli.runs.checkpoints import DAMAGE
from ictcli.runs.list import find_runs
from ictcli.runs.read import in_use, read_record, size
from ictcli.runs.records import RecipeRecord
from ictcli.runs.trained import run_of


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


def based_on(runs: Sequence[Path]) -> dict[Path, str]:
    """Runs beside these that began with the model of one of them, and what cannot be done without
    that."""
    theirs = {run.resolve() for run in runs}
    beside = dict.fromkeys(each for run in runs for each in find_runs(run.parent, depth=1))
    found: dict[Path, str] = {}
    for each in beside:
        recipe = read_record(each / "recipe.toml", RecipeRecord, strict=False)
        base = run_of(typed_path(recipe.model)) if recipe and recipe.model else None
        if recipe and base and base.resolve() in theirs and each.resolve() not in theirs:
            adapters = flat(recipe.to_json()).get("adapter.kind", "none") != "none"
            found[each] = "cannot be loaded" if adapters else "cannot be resumed"
    return found


def remove_run(run: Path) -> int:
    """Remove a run and all that lies in its folder; returns how many bytes that frees. UserError
    as `check_removable` raises it."""
    check_removable(run)
    taken = size(run)
    lock = run / ".lock"
    if lock.is_symlink() or (lock.exists() and not lock.is_file()):
        lock.rename(run / ".lock.damaged")  # nobody holds it
    with locked(run, "run folder", "--run"):
        drop(run)
    return taken


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

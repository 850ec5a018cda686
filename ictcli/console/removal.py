"""What `ictcli runs rm` and `ictcli runs gc` remove."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ictcli.console.plain import narrate, output
from ictcli.console.runs import glance
from ictcli.console.table import print_json
from ictcli.runs.list import Entry, shown
from ictcli.runs.read import size
from ictcli.tables.numbers import counted, size_text


def print_removal(runs: Sequence[Entry]) -> None:
    """A line for each run that goes, and how much they take."""
    sizes = [size(Path(run.run)) for run in runs]
    for run, taken in zip(runs, sizes, strict=True):
        narrate(f"{glance(run)}, {size_text(taken)}")
    narrate(f"{counted(len(runs), 'run')}, {size_text(sum(sizes))}")


def print_old(
    old: Mapping[Path, int], busy: Sequence[Path], *, removed: bool, as_json: bool
) -> None:
    """A line for each checkpoint, by its folder and bytes, and how much is or would be freed.
    `busy` runs are left alone."""
    total = sum(old.values())
    if as_json:
        paths = {str(path): taken for path, taken in old.items()}
        print_json({"removed": removed, "bytes": total, "checkpoints": paths})
        return
    for path, taken in old.items():
        output(f"{shown(path.parents[1])}: {path.name}, {size_text(taken)}")
    for run in busy:
        narrate(f"note: {run} is being trained, and left alone")
    freed = f"{size_text(total)} {'freed' if removed else 'would be freed'}"
    number = counted(len(old), "old checkpoint")
    narrate(f"{number}, {freed}" if old else "No checkpoint is old.")

"""What `ictcli runs rm` and `ictcli runs gc` remove."""

from collections.abc import Sequence
from pathlib import Path

from ictcli.console.plain import narrate, output
from ictcli.console.runs import ago
from ictcli.console.table import print_json
from ictcli.runs.find import shown
from ictcli.runs.list import Entry
from ictcli.runs.read import size
from ictcli.runs.remove import OldCheckpoint
from ictcli.tables.numbers import size_text


def runs_to_remove(runs: Sequence[Entry]) -> None:
    """A line for each run, and how much they take."""
    sizes = [size(Path(run.run)) for run in runs]
    for run, taken in zip(runs, sizes, strict=True):
        steps = "?" if run.steps is None else run.steps
        narrate(
            f"{run.run}: {run.state}, step {run.step} of {steps}, {ago(run.when)}, "
            f"{size_text(taken)}"
        )
    narrate(f"{len(runs)} run{'s' * (len(runs) != 1)}, {size_text(sum(sizes))}")


def runs_removed(sizes: Sequence[int]) -> None:
    number = f"{len(sizes)} run{'s' * (len(sizes) != 1)}"
    narrate(f"removed {number}, {size_text(sum(sizes))} freed")


def old_checkpoints(
    old: Sequence[OldCheckpoint], busy: Sequence[Path], *, removed: bool, as_json: bool
) -> None:
    """A line for each checkpoint, and how much is or would be freed. `busy` runs are left alone."""
    total = sum(checkpoint.bytes for checkpoint in old)
    if as_json:
        paths = {str(checkpoint.path): checkpoint.bytes for checkpoint in old}
        print_json({"removed": removed, "bytes": total, "checkpoints": paths})
        return
    for checkpoint in old:
        output(f"{shown(checkpoint.run)}: {checkpoint.path.name}, {size_text(checkpoint.bytes)}")
    for run in busy:
        narrate(f"note: {run} is being trained, and left alone")
    number = f"{len(old)} old checkpoint{'s' * (len(old) != 1)}"
    freed = f"{size_text(total)} {'freed' if removed else 'would be freed'}"
    narrate(f"{number}, {freed}" if old else "No checkpoint is old.")

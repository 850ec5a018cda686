"""`ictcli runs check`: every file of a run that has a checksum."""

from pathlib import Path

from ictcli.runs import checkpoints, manifest
from ictcli.runs.checkpoints import DAMAGE
from ictcli.runs.read import read_record
from ictcli.runs.records import Manifest, RunRecord


class RunCheck(RunRecord):
    """What a run wrote once, and what became of it."""

    run: str
    files: int
    """Files with a checksum, those of checkpoints included."""
    faults: dict[str, str]
    """What is wrong, by file or checkpoint."""


def check_run(run: Path) -> RunCheck:
    """Read every file with a checksum. A run of an older version has them for checkpoints alone."""
    wrong = manifest.faults(run)
    folders = checkpoints.folders(run)
    for folder in folders:
        try:
            checkpoints.check(folder)
        except DAMAGE as error:
            wrong[folder.relative_to(run).as_posix()] = f"is damaged: {error}"
    places = [path / manifest.MANIFEST for path in (run, *folders)]
    lists = [read_record(path, Manifest, strict=False) for path in places]
    files = sum(len(each.files) for each in lists if each)
    return RunCheck(run=str(run), files=files, faults=wrong)

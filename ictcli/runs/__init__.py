"""Write and read run folders: the files that a run leaves on the disk."""

from ictcli.runs.folder import Run, free_folder, is_run
from ictcli.runs.records import FORMAT
from ictcli.runs.rollouts import read_rollouts

__all__ = ["FORMAT", "Run", "free_folder", "is_run", "read_rollouts"]

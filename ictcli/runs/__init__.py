"""The run folder: what a run leaves on disk, written once and read in one place."""

from ictcli.runs.folder import FORMAT, Run, damaged, free_folder, is_run, read_rollouts

__all__ = ["FORMAT", "Run", "damaged", "free_folder", "is_run", "read_rollouts"]

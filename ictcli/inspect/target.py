"""Where a page may be written: over nothing, or over a page that inspect wrote before."""

from __future__ import annotations

from pathlib import Path

from ictcli.errors import UserError
from ictcli.runs import is_run

MARK = '<meta name="generator" content="ictcli inspect">'
"""In the head of every page."""
HEAD_BYTES = 1024


def check_target(path: Path) -> None:
    """UserError where a page must not be written: on a folder, a device, a run's file, or a file
    that is no page of inspect's."""
    if path.is_dir():
        raise UserError(
            f"{path} is a folder, and --html takes a file.", f"--html {path}/group.html"
        )
    above = next((one for one in path.parents if one.exists()), None)
    if above is not None and not above.is_dir():
        raise UserError(f"{above} is a file, not a folder.", "--html takes another place")
    run = next((one for one in path.absolute().parents if is_run(one)), None)
    if run is not None and path.suffix.lower() not in (".html", ".htm"):
        raise UserError(
            f"{path} lies in the run {run}, and does not end in .html.", "--html group.html"
        )
    if not path.exists():
        return
    if not path.is_file():
        raise UserError(f"{path} is no regular file.", "--html group.html")
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if MARK.encode() not in head:
        raise UserError(
            f"{path} is there already, and is no page that inspect wrote.",
            "--html takes another name, or delete it first",
        )

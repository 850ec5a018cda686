"""Manifests: size and SHA-256 of the files of a checkpoint or a run.

RUN/manifest.json lists the files that a run has finished. The entry of a file is removed
before the file is written again, so that a kill in between leaves no wrong checksum.
"""

import contextlib
import hashlib
import os
from collections.abc import Generator, Iterable
from fnmatch import fnmatch
from pathlib import Path

from ictcli.files import write_json
from ictcli.files.reading import open_plain
from ictcli.runs.read import read_record
from ictcli.runs.records import FORMAT, FileRecord, Manifest

MANIFEST = "manifest.json"
MISSING = "is missing"
RESULTS = ("recipe.toml", "environment.json", "summary.json", "metrics.jsonl", "timings.jsonl")


def checksum(path: Path) -> FileRecord:
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        return FileRecord(bytes=size, sha256=hashlib.file_digest(file, "sha256").hexdigest())


def is_unchanged(path: Path, record: FileRecord) -> bool:
    """Return whether a file has the size and the checksum of its record."""
    return path.stat().st_size == record.bytes and checksum(path) == record


def checksums(folder: Path, paths: Iterable[Path]) -> dict[str, FileRecord]:
    """Return the checksums of `paths` and of all files below them, by path relative to `folder`."""
    files = {file for path in paths for file in (path, *path.rglob("*")) if file.is_file()}
    return {file.relative_to(folder).as_posix(): checksum(file) for file in sorted(files)}


def enter(run: Path, *names: str) -> None:
    """Add the current checksums of files, or of all files of folders, to a run's manifest."""
    files = {**_files(run), **checksums(run, [run / name for name in names])}
    _write(run, files)


def leave(run: Path, *names: str) -> None:
    """Remove files, or all files of folders, from a run's manifest, before they change."""
    files = _files(run)
    removed = {f for f in files for name in names if f == name or f.startswith(f"{name}/")}
    if removed:
        _write(run, {file: record for file, record in files.items() if file not in removed})


@contextlib.contextmanager
def rewriting(run: Path, *names: str) -> Generator[None]:
    """Take files or folders out of a run's manifest; enter them when the context rewrote them."""
    leave(run, *names)
    yield
    enter(run, *names)


def faults(run: Path, *patterns: str) -> dict[str, str]:
    """Return what is wrong with the files in a run's manifest, by name; if patterns are given, only
    of matching files. Empty for a run of an older version, which has no manifest."""
    manifest = read_record(run / MANIFEST, Manifest, strict=False)
    if manifest is None:
        unknown = {MANIFEST: "cannot be read, so no checksum of the run is known"}
        return unknown if (run / MANIFEST).exists() else {}
    wrong, inside = dict[str, str](), run.resolve()
    for name, record in manifest.files.items():
        if patterns and not any(fnmatch(name, pattern) for pattern in patterns):
            continue
        try:
            if not (run / name).resolve().is_relative_to(inside):
                wrong[name] = "lies outside the run"  # a stranger's manifest may name any path
            elif not (run / name).exists():
                is_link = (run / name).is_symlink()
                wrong[name] = "is a broken link" if is_link else MISSING
            elif not (run / name).is_file():
                wrong[name] = "is not a regular file"
            elif not is_unchanged(run / name, record):
                wrong[name] = "is not the file that the run wrote"
        except (OSError, ValueError) as error:  # a name may contain any character
            wrong[name] = f"cannot be read ({getattr(error, 'strerror', None) or error})"
    return wrong


def altered(run: Path, *patterns: str) -> dict[str, str]:
    """Return `faults` except missing files."""
    return {name: why for name, why in faults(run, *patterns).items() if why != MISSING}


def _files(run: Path) -> dict[str, FileRecord]:
    manifest = read_record(run / MANIFEST, Manifest, strict=False)
    return manifest.files if manifest else {}


def _write(run: Path, files: dict[str, FileRecord]) -> None:
    write_json(run / MANIFEST, Manifest(format=FORMAT, files=files).to_json())

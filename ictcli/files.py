"""Writing so that a kill or a full disk never leaves half a file: beside, synced, renamed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Replace a file's content in one move; its folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_json(path: Path, data: Any) -> None:
    """`write_text` of indented JSON; NaN is an error, not a file no one can read."""
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@contextlib.contextmanager
def new_folder(path: Path) -> Generator[Path]:
    """A folder to fill, renamed to `path` at the end; an older `path` is replaced."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        beside.mkdir()
        yield beside
        for file in beside.iterdir():
            sync(file)
        sync(beside)
        if path.exists():
            path.rename(old)
        beside.rename(path)
        sync(path.parent)
    finally:
        for leftover in (beside, old):
            shutil.rmtree(leftover, ignore_errors=True)


def sync(path: Path) -> None:
    """Ask the disk to hold a file or folder now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

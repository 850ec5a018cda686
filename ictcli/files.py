"""Writing so that a kill or a full disk never leaves half a file: beside, synced, renamed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Replace a file's content in one move; its folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as beside:
        beside.write_text(text, encoding="utf-8")


def encodable(text: str) -> str:
    """The same without halves of surrogate pairs, which no file takes."""
    return text.encode("utf-8", "replace").decode()


@contextlib.contextmanager
def new_file(path: Path) -> Generator[Path]:
    """A file to write, renamed to `path` at the end; an older `path` is replaced."""
    beside = _beside(path, "tmp")
    try:
        with _disk_faults(path):
            yield beside
        sync(beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_json(path: Path, data: Any) -> None:
    """`write_text` of indented JSON; NaN is an error, not a file no one can read."""
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@contextlib.contextmanager
def new_folder(path: Path) -> Generator[Path]:
    """A folder to fill, renamed to `path` at the end; an older `path` is replaced."""
    beside, old = _beside(path, "tmp"), _beside(path, "old")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.rmtree(beside, ignore_errors=True)  # of a killed process with the same number
        beside.mkdir()
        with _disk_faults(path):
            yield beside
        for file in beside.iterdir():
            file.chmod(0o644)  # safetensors writes for its owner alone
            sync(file)
        sync(beside)
        if path.exists():
            path.rename(old)
        beside.rename(path)
        sync(path.parent)
    finally:
        for leftover in (beside, old):
            shutil.rmtree(leftover, ignore_errors=True)


def _beside(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{kind}")


def is_leftover(path: Path) -> bool:
    """Whether the name is one that a write still under way, or killed, goes by: ours, or that of
    safetensors."""
    return re.fullmatch(r"\..+\.\d+\.(tmp|old)|\.tmp\w{6}", path.name) is not None


def sweep(folder: Path) -> None:
    """Remove what killed writes left in a folder that no other process writes to."""
    for path in [path for path in folder.rglob(".*") if is_leftover(path)]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _disk_faults(path: Path) -> Generator[None]:
    """safetensors and MLX have errors of their own for a disk that is full: raise the OSError it
    is."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        if found := re.search(r"\(os error (\d+)\)", str(error)):
            number = int(found[1])
            raise OSError(number, os.strerror(number), str(path)) from error
        if "Unable to write" in str(error):  # MLX does not say why
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise


def sync(path: Path) -> None:
    """Ask the disk to hold a file or folder now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

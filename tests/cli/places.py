"""Disks that are full or take nothing, for tests that may mount them."""

import contextlib
import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest


def mount(*args: str | Path) -> None:
    """Call mount, or skip the test where this process may not."""
    found = subprocess.run(["mount", *args], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"mount is not permitted here: {found.stderr.strip()}")


@contextlib.contextmanager
def disk(folder: Path, kilobytes: int) -> Generator[Path]:
    """A disk of that size at `folder` (a tmpfs)."""
    folder.mkdir()
    mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextlib.contextmanager
def read_only(folder: Path) -> Generator[Path]:
    """`folder`, which may hold files already, taking none within; root's rights are not enough."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    mount("--bind", folder, folder)
    try:
        mount("-o", "remount,bind,ro", folder)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)

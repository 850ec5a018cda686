"""Checks of folders that someone else may have made, and atomic writes: a file is written under
another name, synced and renamed, and its folder is synced, so that a kill, a power cut or a full
disk leaves no half-written file."""

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import subprocess
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ictcli.errors import UserError
from ictcli.files.reading import check_file
from ictcli.text import shell_word

if TYPE_CHECKING:
    from filelock import FileLock

LARGEST = 1e15
"""Largest number in a recipe or reward: results computed from such numbers stay finite."""
WANDB = "wandb"
"""Folder of Weights & Biases in a run. It is not checked, as its logs link to a cache elsewhere."""


def check_inside(folder: Path, *, plain: bool = False) -> None:
    """Raise UserError if an entry below a folder (of a run, a comparison or an evaluation) is a
    link that leaves the folder or leads in a circle: someone else's run must not make ictcli read,
    write or delete other files. With `plain` also if an entry is neither a file nor a folder:
    reading a pipe never ends."""
    root, places = os.path.realpath(folder), [str(folder)]
    while places:
        place = places.pop()
        entries: list[os.DirEntry[str]] = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # removed meanwhile
            entries = list(os.scandir(place))
        for entry in entries:
            if entry.is_symlink():
                target = os.path.realpath(entry.path)
                leaves = os.path.commonpath([root, target]) != root
                if leaves or Path(target).is_symlink():
                    raise UserError(
                        f"{entry.path} is a link that "
                        f"{f'leaves {folder}' if leaves else 'leads in a circle'}: ictcli neither "
                        "reads nor writes through such links.",
                        "replace the link by the file or folder itself, or remove it: "
                        f"rm {shell_word(entry.path)}",
                    )
            elif entry.is_dir():
                if entry.name != WANDB or not os.path.lexists(f"{place}/recipe.toml"):
                    places.append(entry.path)
            elif plain and not entry.is_file():
                raise UserError(
                    f"{entry.path} is a pipe or a device, not a regular file.",
                    f"replace it by the original file, or remove it: rm {shell_word(entry.path)}",
                )


def is_below(folder: Path, path: Path) -> bool:
    """Return whether a path, with links resolved, is the folder or inside it."""
    root = os.path.realpath(folder)
    return os.path.commonpath([root, os.path.realpath(path)]) == root


def check_base(run: Path, model: str) -> None:
    """Raise UserError if the base model that a run names is a folder in the run itself, which
    cannot be the model that the run was trained from."""
    places = (place / Path(model).expanduser() for place in (Path(), run))
    inside = (place for place in places if place.is_dir() and is_below(run, place))
    if model and (folder := next(inside, None)):
        raise UserError(
            f"{run} names the base model {model}, but {folder} is a folder of that run.",
            "a run's base model is never inside the run: move that folder away",
        )


def lock_of(path: Path) -> "FileLock":
    """Return the lock `path`. UnreadableError if a pipe or a device is there: opening may block."""
    from filelock import FileLock

    if path.exists():
        check_file(path)
    return FileLock(path)


NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@contextlib.contextmanager
def locked(folder: Path, kind: str = "folder", option: str = "--out") -> Generator[None]:
    """Hold the lock of a folder within the context; if the context raises, a newly created lock
    file is removed. UserError if another process holds the lock, or the file system has no
    locks."""
    from filelock import Timeout

    path = folder / ".lock"
    is_new, lock = not path.exists(), lock_of(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(
            f"The {kind} {folder} is in use by another process.",
            f"wait for it, stop it with Ctrl-C, or choose another folder with {option}",
        ) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        if is_new:
            path.unlink(missing_ok=True)
        raise UserError(
            f"The file system of {folder} has no locks to keep a second process out.",
            f"choose a folder on another disk with {option}",
        ) from error
    try:
        yield
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):
                path.unlink()
        raise
    finally:
        lock.release()


def appended(path: Path) -> BinaryIO:
    """Open a file for appending, and create it if missing. OSError if it is a link."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o666), "ab")


def write_text(path: Path, text: str) -> None:
    """Replace a file's content atomically; a missing folder is created."""
    make_folder(path.parent)
    with new_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def encodable(text: str) -> str:
    """Return text with `?` for lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


@contextlib.contextmanager
def new_file(path: Path) -> Generator[Path]:
    """Yield a temporary file to write; at the end it replaces `path`."""
    temporary = _beside(path, "tmp")
    temporary.unlink(missing_ok=True)  # left by a killed process with the same pid; or a link
    try:
        with _disk_faults(path):
            with temporary.open("xb") as file:
                mode = os.fstat(file.fileno()).st_mode
            yield temporary
        temporary.chmod(mode)  # only the owner can read what safetensors writes
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        with contextlib.suppress(OSError):  # an earlier error is raised
            temporary.unlink(missing_ok=True)


def write_json(path: Path, data: Any) -> None:
    """Write indented JSON atomically. ValueError for NaN and infinite numbers."""
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@contextlib.contextmanager
def new_folder(path: Path) -> Generator[Path]:
    """Yield a temporary folder to fill; at the end it replaces the folder `path`."""
    import psutil

    temporary, old = _beside(path, "tmp"), _beside(path, "old")
    make_folder(path.parent)
    try:
        for pid, leftover in numbered(path.parent, rf"\.{re.escape(path.name)}\.(\d+)\.tmp"):
            if pid == os.getpid() or not psutil.pid_exists(pid):  # of a killed process
                shutil.rmtree(leftover, ignore_errors=True)
        temporary.mkdir()
        mode = temporary.stat().st_mode
        with _disk_faults(path):
            yield temporary
        for file in sorted(temporary.rglob("*"), reverse=True):  # files before their folder
            file.chmod(mode if file.is_dir() else mode & 0o666)  # see `new_file`
            sync(file)
        sync(temporary)
        try:
            if path.exists():
                path.rename(old)
            temporary.rename(path)
        except BaseException:  # Ctrl-C too
            if old.exists() and not path.exists():
                old.rename(path)
            raise
        sync(path.parent)
    finally:
        for leftover in (temporary, old):
            shutil.rmtree(leftover, ignore_errors=True)


def make_folder(path: Path) -> list[Path]:
    """Create a folder and its missing parents, synced to disk; return the new ones, innermost
    first."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync(folder.parent)
    return missing


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders in this order, inner ones first, up to the first that is not empty."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _beside(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{kind}")


def is_leftover(path: Path) -> bool:
    """Return whether a name is one of the temporary names that ictcli and safetensors write to."""
    return re.fullmatch(r"\..+\.\d+\.(tmp|old)|\.tmp\w{6}", path.name) is not None


def drop(folder: Path) -> None:
    """Remove a folder. It is renamed first, so that a kill leaves no half-removed folder."""
    temporary = _beside(folder, "tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    folder.rename(temporary)
    sync(folder.parent)
    try:
        shutil.rmtree(temporary, ignore_errors=True)
    except RecursionError:  # nested deeper than Python's stack
        subprocess.run(["rm", "-rf", "--", temporary], check=False)


def numbered(folder: Path, pattern: str) -> list[tuple[int, Path]]:
    """Return (number, path), ascending, of a folder's entries whose names match `pattern`. The
    number is the pattern's first group."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    matches = [(match, name) for name in names if (match := re.fullmatch(pattern, name))]
    return sorted((int(match[1]), folder / name) for match, name in matches)


def sweep(folder: Path) -> None:
    """Remove temporary files that killed writes left in a folder to which no other process writes.
    A folder that was moved aside and not yet replaced is moved back."""
    for path in [path for path in folder.rglob(".*") if is_leftover(path)]:
        aside = re.fullmatch(r"\.(.+)\.\d+\.old", path.name)
        if aside and not (place := path.with_name(aside[1])).exists():
            path.rename(place)
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _disk_faults(path: Path) -> Generator[None]:
    """Turn the errors that safetensors and MLX raise on a full disk into OSError."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        os_error = re.search(r"\(os error (\d+)\)", str(error))
        if not os_error and "Unable to write" not in str(error):  # MLX does not say why
            raise
        number = int(os_error[1]) if os_error else errno.ENOSPC
        raise OSError(number, os.strerror(number), str(path)) from error


NOT_OF_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)
"""Errors ignored when a folder is synced: some network disks sync only files, and a folder may be
writable but not readable."""


def sync(path: Path) -> None:
    """Write a file, or the names in a folder, through to the disk. On macOS fsync reaches only the
    drive's cache, so F_FULLFSYNC is used if the file system supports it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if path.is_dir() and error.errno in NOT_OF_FOLDERS:
            return
        raise OSError(error.errno, error.strerror, str(path)) from error


def _sync(descriptor: int) -> None:
    if full := getattr(fcntl, "F_FULLFSYNC", None):
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, full)
            return
    os.fsync(descriptor)

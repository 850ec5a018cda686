"""Files are written in one move, and what others may have written is read only if it is a plain
file, neither too large nor too deep."""

import errno
import fcntl
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused
from safetensors import SafetensorError
from safetensors.numpy import save_file

from ictcli.files import (
    appended,
    is_leftover,
    lock_of,
    locked,
    new_file,
    new_folder,
    sweep,
    write_json,
    write_text,
)
from ictcli.files.reading import LARGEST, UnreadableError, lines, parse_json, parse_toml, read_bytes
from ictcli.rows import read_file


class FailureError(Exception):
    pass


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("mask", [0o077, 0o002, 0o027])
def test_what_is_written_has_the_permissions_that_the_umask_gives(
    tmp_path: Path, mask: int
) -> None:
    before = os.umask(mask)
    try:
        write_text(tmp_path / "deep" / "text", "")
        with new_file(tmp_path / "deep" / "weights") as beside:
            save_file({"a": np.zeros(1)}, beside)  # for its owner alone
        with new_folder(tmp_path / "deep" / "folder") as beside:
            (beside / "in").mkdir()
            save_file({"a": np.zeros(1)}, beside / "in" / "weights")
        with appended(tmp_path / "deep" / "log"):
            pass
        with lock_of(tmp_path / "deep" / ".lock"):
            pass
    finally:
        os.umask(before)
    for path in (tmp_path / "deep").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o777 if path.is_dir() else 0o666) & ~mask, path


def test_the_file_of_a_lock_goes_with_the_error_of_whoever_made_it(tmp_path: Path) -> None:
    with pytest.raises(FailureError), locked(tmp_path):
        with refused("is in use by another process"), locked(tmp_path):
            pass
        assert names(tmp_path) == {".lock"}
        raise FailureError
    assert names(tmp_path) == set()
    with locked(tmp_path):
        pass
    with pytest.raises(FailureError), locked(tmp_path):
        raise FailureError
    assert names(tmp_path) == {".lock"}


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    words = f"file system of {tmp_path} has no locks"
    with refused(words, hint="--run"), locked(tmp_path, "run folder", "--run"):
        pytest.fail("it is not locked")
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    ("write", "old", "new", "error"),
    [
        (write_text, "old", "new \udcff", "surrogates not allowed"),
        (write_json, {"x": 1}, {"x": float("nan")}, "not JSON compliant"),
        (write_json, {"x": 1}, {"x": float("inf")}, "not JSON compliant"),
    ],
)
def test_what_cannot_be_written_or_read_again_leaves_the_old_file(
    tmp_path: Path, write: Callable[..., None], old: Any, new: Any, error: str
) -> None:
    write(tmp_path / "a", old)
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(ValueError, match=error):
        write(tmp_path / "a", new)
    assert (tmp_path / "a").read_bytes() == before and names(tmp_path) == {"a"}


def test_a_file_is_not_there_before_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with new_file(path) as beside:
        beside.write_text("half")
        assert not path.exists()
    with pytest.raises(FailureError), new_file(path) as beside:
        beside.write_text("other")
        raise FailureError
    assert path.read_text() == "half" and names(tmp_path) == {"a"}


def test_a_folder_is_there_whole_and_replaces_all_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a"
    for name in ("one", "two"):
        with new_folder(path) as beside:
            (beside / "in").mkdir()
            (beside / "in" / name).write_text(name)
            assert name == "two" or not path.exists()
        assert names(path / "in") == {name} and (path / "in").stat().st_mode & 0o100
    with pytest.raises(FailureError), new_folder(path) as beside:
        (beside / "three").write_text("3")
        raise FailureError
    with pytest.raises(OSError), new_folder(path) as beside:
        beside.rename(tmp_path / "stolen")
    assert names(path / "in") == {"two"} and names(path) == {"in"}
    assert names(tmp_path / "deep") == {"a"}


def test_leftovers_of_killed_processes_go_and_those_of_a_live_one_stay(tmp_path: Path) -> None:
    live = f".a.{os.getppid()}.tmp"
    for name in (f".a.{os.getpid()}.tmp", f".a.{10**9}.tmp", live):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_text("h")
    with new_folder(tmp_path / "a") as beside:
        (beside / "one").write_text("1")
    assert names(tmp_path / "a") == {"one"} and names(tmp_path) == {"a", live}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("write", [new_file, new_folder])
def test_safetensors_full_disk_is_an_os_error(tmp_path: Path, number: int, write: type) -> None:
    text = f"Error while serializing: I/O error: {os.strerror(number)} (os error {number})"
    with pytest.raises(OSError) as caught, write(tmp_path / "a"):
        raise SafetensorError(text)
    assert (caught.value.errno, caught.value.filename) == (number, str(tmp_path / "a"))
    assert names(tmp_path) == set()


def test_other_errors_pass_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(SafetensorError, match="no such tensor"), new_file(tmp_path / "a"):
        raise SafetensorError("no such tensor")
    with pytest.raises(FileNotFoundError) as caught, new_folder(tmp_path / "a"):
        (tmp_path / "missing").read_text()
    assert caught.value.filename == str(tmp_path / "missing")


@pytest.mark.parametrize("known", [True, False])
def test_on_macos_the_drive_is_asked_and_not_only_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Where the file system does not know how, the system is."""
    asked: list[object] = []

    def control(descriptor: int, command: object) -> None:
        asked.append(command)
        if not known:
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda descriptor: asked.append("fsync"))
    write_text(tmp_path / "a", "a")
    assert asked == ([51, 51] if known else [51, "fsync"] * 2)  # the file, and its folder


def test_sweep_takes_leftovers_and_nothing_else_and_moves_back_what_was_never_replaced(
    tmp_path: Path,
) -> None:
    steps = tmp_path / "checkpoints"
    for folder in (steps / ".step-000003.77.tmp", tmp_path / ".eval.8.old", tmp_path / "model"):
        folder.mkdir(parents=True)
        (folder / "weights").write_text("half")
    for name in (".model.8.old", ".eval.8.tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / ".metrics.jsonl.123.tmp").write_text("half")
    (tmp_path / ".tmp0CrItG").write_text("half")  # of safetensors
    kept = {"notes.tmp", ".hidden", ".a.tmp", ".lock", "a.8.old"}
    for name in kept:
        (tmp_path / name).write_text("mine")
    sweep(tmp_path)
    assert names(tmp_path) == kept | {"checkpoints", "model", "eval"}
    assert names(steps) == set() and names(tmp_path / "model") == names(tmp_path / "eval")
    assert not any(is_leftover(tmp_path / name) for name in kept)


GIB = 1 << 30


def sparse(path: Path, size: int = 40 * GIB) -> Path:
    """A file of zeros that takes no room."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


NO_FILES: dict[str, Callable[[Path], object]] = {
    "sparse": sparse,
    "pipe": os.mkfifo,
    "socket": lambda path: socket.socket(socket.AF_UNIX).bind(str(path)),
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
}


def list_lines(path: Path) -> list[bytes]:
    return list(lines(path))


def read_rows(path: Path) -> object:
    return read_file(str(path))


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        *((name, (read_bytes, list_lines)) for name in ("a.json", "a.jsonl", "a.py")),
        *((name, (read_rows,)) for name in ("a.jsonl", "a.csv", "a.parquet")),
    ],
)
@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_plain_file_of_its_kind_is_refused_unread(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    reads: tuple[Callable[[Path], object], ...],
    kind: str,
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    NO_FILES[kind](Path(name))
    for read in reads:
        with pytest.raises(UnreadableError, match=rf"^{name} (is not a |has 40,960 MiB)"):
            read(Path(name))


def test_a_file_as_large_as_its_kind_may_be_is_read(tmp_path: Path) -> None:
    size = LARGEST[".toml"]
    assert len(read_bytes(sparse(tmp_path / "a.toml", size))) == size


def test_a_line_without_an_end_is_not_read_to_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n2\n")
    os.truncate(path, GIB)
    found = lines(path)
    assert [next(found), next(found)] == [b"1\n", b"2\n"]
    with pytest.raises(UnreadableError, match="a line of more than"):
        next(found)


@pytest.mark.parametrize("depth", [101, 100_000])
@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse_json, "{}{}"), (parse_json, '{{"a": {}1{}}}'), (parse_toml, "a = {}{}")],
)
def test_what_is_nested_too_deep_is_a_value_error(
    parse: Callable[[str], object], text: str, depth: int
) -> None:
    assert parse(text.format("[" * 90, "]" * 90))
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        parse(text.format("[" * depth, "]" * depth))


def test_tables_of_toml_are_no_deeper_than_lists() -> None:
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        parse_toml(".".join("a" * 5000) + " = 1")

"""What others may have written is read only if it is a plain file, and neither too large nor too
deep."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ictcli.files.reading import LARGEST, UnreadableError, lines, parse_json, parse_toml, read_bytes
from ictcli.rows import read_file

GIB = 1 << 30


def sparse(path: Path, size: int = 40 * GIB) -> Path:
    """A file of zeros that takes no room."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def plug(path: Path) -> Path:
    socket.socket(socket.AF_UNIX).bind(str(path))
    return path


def zero(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.py"])
@pytest.mark.parametrize("kind", [sparse, pipe, plug, zero, folder])
def test_what_is_no_plain_file_of_its_kind_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: Callable[[Path], Path]
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    for read in (read_bytes, lambda path: list(lines(path))):
        with pytest.raises(UnreadableError, match=rf"^{name} (is no plain file|has 40,960 MiB)"):
            read(kind(Path(name)) if not os.path.lexists(name) else Path(name))


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
@pytest.mark.parametrize("kind", [sparse, pipe, zero, folder])
def test_data_is_no_plain_file_of_its_kind_is_refused_unread(
    tmp_path: Path, name: str, kind: Callable[[Path], Path]
) -> None:
    with pytest.raises(UnreadableError):
        read_file(str(kind(tmp_path / name)))


def test_a_file_as_large_as_its_kind_may_be_is_read(tmp_path: Path) -> None:
    path = sparse(tmp_path / "a.toml", LARGEST[".toml"])
    assert len(read_bytes(path)) == LARGEST[".toml"]


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

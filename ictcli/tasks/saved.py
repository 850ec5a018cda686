"""Rows of a folder that `save_to_disk` of a `Dataset` or `DatasetDict` of `datasets` wrote."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from ictcli.errors import UserError, reason_of
from ictcli.files.reading import check_file, parse_json, read_text
from ictcli.rows import SAVED, SPLITS, Row, Rows, in_memory, unfolded

_BLOCK = 1 << 20


def read_saved(name: str, split: str | None, usual: str) -> Rows:
    """The rows of a folder; of several splits those of `split`, by default `usual` or the only one.
    The files stay on the disk, and are looked into as rows are taken. UserError if it has no such
    split, or cannot be read."""
    folder, source = Path(name), {"file": Path(name).name}
    if (folder / SPLITS).is_file():
        known = [str(each) for each in _list(folder / SPLITS, "splits")]
        chosen = split or (known[0] if len(known) == 1 else usual)
        if chosen not in known:
            raise UserError(
                f"{name} has no split {chosen!r}; it has {', '.join(known) or 'none'}.",
                "hub.split=NAME takes another; of eval.bench eval.hub.split=NAME",
            )
        if (folder / chosen).parent != folder:
            raise UserError(f"{name} lacks its split {chosen!r}.", "save it again")
        folder, source = folder / chosen, {**source, "split": chosen}
    elif split is not None:
        raise UserError(f"{name} has no splits.", "leave out hub.split")
    files = _files(folder)
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            while block := opened.read(_BLOCK):
                digest.update(block)
    try:
        rows = in_memory(name, _rows(folder, files))
    except UserError:
        raise
    except Exception as error:  # whatever damage makes pyarrow raise
        reason = reason_of(error)
        raise UserError(f"{folder} cannot be read: {reason}.", "save it again") from error
    return Rows(rows, {**source, "sha256": digest.hexdigest()})


def _files(folder: Path) -> list[Path]:
    """The Arrow files that state.json names, none of them outside of the folder."""
    files = [
        folder / str(cast("dict[str, Any]", each).get("filename"))
        for each in _list(folder / SAVED, "_data_files")
        if isinstance(each, dict)
    ]
    for file in files:
        if file.parent != folder or not file.is_file():
            raise UserError(f"{folder} lacks its file {file.name}.", "save it again")
        check_file(file)
    return files


def _list(path: Path, key: str) -> list[Any]:
    try:
        data = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}.", "save the data set again") from error
    found = cast("dict[str, Any]", data).get(key) if isinstance(data, dict) else None
    return cast("list[Any]", found) if isinstance(found, list) else []


def _rows(folder: Path, files: list[Path]) -> Iterator[Row]:
    import pyarrow

    def batches() -> Iterator[Any]:
        for file in files:
            with pyarrow.memory_map(str(file)) as mapped, pyarrow.ipc.open_stream(mapped) as read:
                yield from read

    for number, columns in enumerate(unfolded(str(folder), batches()), 1):
        yield Row(f"{folder}, row", number, columns)

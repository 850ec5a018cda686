"""Checksums that identify a model."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from ictcli.engine.model_files import CONFIGS, TOKENIZER, listed
from ictcli.engine.models import Source, snapshot, weight_files
from ictcli.files.reading import open_plain, parse_json, read_bytes

HEADER = 100_000_000
"""Maximum number of bytes that safetensors allows for a header."""
BLOCK, BLOCKS = 1 << 16, 1024  # bytes in a block, and blocks of a model that are read


def fingerprint(source: Source) -> str:
    """Return a checksum of a model's settings, tokenizer, code, weights and adapters."""
    digest = hashlib.sha256()
    model = snapshot(source.path)
    if model is None:
        digest.update(source.path.encode())
    for folder in filter(None, [model, source.adapter]):
        for file in listed(folder, (*CONFIGS, *TOKENIZER, "*.py")):
            digest.update(f"{file.name} {file.stat().st_size}\n".encode() + read_bytes(file))
        digest.update(weights_fingerprint(folder).encode())
    return digest.hexdigest()


def identity(source: Source) -> str:
    """Return a checksum of config.json and the weights; empty if they are not on this machine."""
    folder = snapshot(source.path)
    if folder is None:
        return ""
    digest = hashlib.sha256()
    if (folder / "config.json").is_file():
        digest.update(read_bytes(folder / "config.json"))
    digest.update(weights_fingerprint(folder).encode())
    return digest.hexdigest()


def weights_fingerprint(folder: Path) -> str:
    """Return a checksum of a model's weights: every tensor's name, dtype, shape and values. To be
    fast, it covers only evenly spaced blocks of the values of a large model. It does not depend on
    how the tensors are split into files.

    Raises OSError or ValueError if a file cannot be read."""
    files = [file for file in weight_files(folder) if file.is_file()]
    tensors = sorted(tensor for file in files for tensor in stored_tensors(file))
    total = sum(tensor.size for tensor in tensors) or 1
    digest = hashlib.sha256()
    for name, kind, shape, file, start, size in tensors:
        digest.update(f"{name} {kind} {shape}\n".encode())
        with open_plain(file) as opened:
            _update(digest, opened, start, size, -(-size * BLOCKS // total))
    return digest.hexdigest()


def _update(digest: Any, opened: BinaryIO, start: int, size: int, blocks: int) -> None:
    """Add `size` bytes of a file from `start` to the digest. Of more than `blocks` blocks, add only
    `blocks`, evenly spaced from the first to the last (if `blocks` is 1, the middle block)."""
    if size <= BLOCK * blocks:
        opened.seek(start)
        digest.update(opened.read(size))
        return
    for number in range(blocks):
        part, parts = (number, blocks - 1) if blocks > 1 else (1, 2)
        opened.seek(start + (size - BLOCK) * part // parts)
        digest.update(opened.read(BLOCK))


class StoredTensor(NamedTuple):
    """A tensor of a safetensors file."""

    name: str
    kind: str
    shape: tuple[int, ...]
    file: Path
    start: int
    """Offset of the tensor's first byte in the file."""
    size: int
    """Number of bytes."""


def stored_tensors(file: Path) -> Iterator[StoredTensor]:
    """Yield the tensors that the header of a safetensors file lists. The file consists of the
    header's length in 8 bytes, the header in JSON, and the data."""
    with open_plain(file) as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = cast(dict[str, Any], parse_json(opened.read(min(length, HEADER))))
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = cast(tuple[int, int], entry["data_offsets"])
            shape, start = tuple(cast(list[int], entry["shape"])), 8 + length + first
            yield StoredTensor(name, str(entry["dtype"]), shape, file, start, last - first)

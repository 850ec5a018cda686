"""Checksums that tell one model from another."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from ictcli.engine.model_files import CONFIGS, TOKENIZER, listed
from ictcli.engine.models import Source, snapshot, weight_files
from ictcli.files.reading import open_plain, parse_json, read_bytes

HEADER = 100_000_000
"""Bytes that safetensors allows a header."""
BLOCK, BLOCKS = 1 << 16, 1024


def fingerprint(source: Source) -> str:
    """Return a checksum of a model's settings, tokenizer, code and weights, and of its adapters,
    independent of their place."""
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
    """Return a checksum of what a run begins with: config.json and the weights, and no other file.
    Empty where their folder is not known."""
    folder = snapshot(source.path)
    if folder is None:
        return ""
    digest = hashlib.sha256()
    if (folder / "config.json").is_file():
        digest.update(read_bytes(folder / "config.json"))
    digest.update(weights_fingerprint(folder).encode())
    return digest.hexdigest()


def weights_fingerprint(folder: Path) -> str:
    """Return a checksum of a model's weights alone: every tensor's name, type and shape, and of its
    numbers all where they are few, else blocks all over them, so that it takes no time. Files and
    their headers do not change it.

    Raises OSError or ValueError where a file cannot be read.
    """
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
    """Digest `size` bytes of a file from `start`; of more than so many blocks that many, at even
    distances, both ends included, or one of the middle."""
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
    """The byte of the file where it begins."""
    size: int
    """In bytes."""


def stored_tensors(file: Path) -> Iterator[StoredTensor]:
    """Yield what is in a safetensors file, which is 8 bytes that say how long its header is, the
    header, the data."""
    with open_plain(file) as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = cast(dict[str, Any], parse_json(opened.read(min(length, HEADER))))
    for name, about in header.items():
        if name != "__metadata__":
            first, last = cast(tuple[int, int], about["data_offsets"])
            shape, start = tuple(cast(list[int], about["shape"])), 8 + length + first
            yield StoredTensor(name, str(about["dtype"]), shape, file, start, last - first)

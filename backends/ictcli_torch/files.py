"""Arrays on disk: one safetensors file, or the parts of it that several processes wrote."""

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from ictcli.files import write_json

KINDS = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.float64: "F64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Types of numbers, by their names in a file."""


def part(path: Path, rank: int, size: int) -> Path:
    """The file of a rank, beside `path`: its slice of each array along the first dimension, and
    scalars, which all ranks have."""
    return path.with_stem(f"{path.stem}-{rank + 1}-of-{size}")


def parts_of(path: Path) -> list[Path]:
    """The parts of `path` that are there, by rank."""
    found = list(path.parent.glob(f"{path.stem}-*-of-*{path.suffix}"))
    return sorted(found, key=lambda file: int(file.stem.split("-")[1]))


def read_arrays(path: Path) -> dict[str, Tensor]:
    """Arrays by name, put together where they are in parts."""
    if not parts_of(path):
        return load_file(path)
    return {name: stored.read() for name, stored in open_arrays(path).items()}


@dataclass(frozen=True)
class Stored:
    """An array that is on disk, in one file or in parts."""

    name: str
    shape: tuple[int, ...]
    files: list[Path]

    def read(self) -> Tensor:
        held: list[Tensor] = []
        for file in self.files if self.shape else self.files[:1]:
            with safe_open(file, "pt") as opened:
                held.append(opened.get_tensor(self.name))
        return torch.cat(held) if len(held) > 1 else held[0]


def open_arrays(path: Path) -> dict[str, Stored]:
    """What `read_arrays` reads, unread."""
    files, shapes = parts_of(path) or [path], dict[str, list[list[int]]]()
    for file in files:
        with safe_open(file, "pt") as opened:
            for name in opened.keys():  # noqa: SIM118
                shapes.setdefault(name, []).append(opened.get_slice(name).get_shape())
    return {
        name: Stored(name, (sum(n[0] for n in each), *each[0][1:]) if each[0] else (), files)
        for name, each in shapes.items()
    }


def write_each(
    path: Path | None, like: Mapping[str, Tensor], value: Callable[[str], Tensor], **about: str
) -> None:
    """Write arrays of the shapes and types of `like`, one after another, as one safetensors file: a
    header and the bytes. `value` gives each by its name, also where `path` is None and nothing is
    written."""
    names = sorted(like, key=lambda name: (-like[name].element_size(), name))  # so all are aligned
    header, end = dict[str, Any](__metadata__=about) if about else {}, 0
    for name in names:
        start, end = end, end + like[name].numel() * like[name].element_size()
        kind, shape = KINDS[like[name].dtype], [*like[name].shape]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, end]}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with contextlib.nullcontext() if path is None else path.open("wb") as file:
        if file:
            file.write(len(head).to_bytes(8, "little") + head)
        for name in names:
            array = value(name)
            if file:
                file.write(array.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)


FILE, INDEX = "5GB", "model.safetensors.index.json"
"""How much a file of a model holds at most, and what names the files."""


def write_files(
    folder: Path | None, like: Mapping[str, Tensor], value: Callable[[str], Tensor]
) -> None:
    """`write_each` of a model's weights, in Hugging Face's layout."""
    split = split_torch_state_dict_into_shards(
        dict(like), filename_pattern="model{suffix}.safetensors", max_shard_size=FILE
    )
    for file, names in split.filename_to_tensors.items():
        some = {name: like[name] for name in names}
        write_each(folder and folder / file, some, value, format="pt")
    if folder and split.is_sharded:
        write_json(
            folder / INDEX, {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
        )

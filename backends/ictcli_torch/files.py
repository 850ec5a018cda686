"""Arrays on disk: one safetensors file, or the parts of it that several processes wrote."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor


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
    parts = parts_of(path)
    if not parts:
        return load_file(path)
    held = [load_file(file) for file in parts]
    return {
        name: torch.cat([arrays[name] for arrays in held]) if first.ndim else first
        for name, first in held[0].items()
    }

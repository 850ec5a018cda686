"""Arrays on disk: one safetensors file, or the parts of it that processes used to write."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor


def read_arrays(path: Path) -> dict[str, Tensor]:
    """Read arrays by name, put together along their first axis where they are in parts."""
    parts = sorted(
        path.parent.glob(f"{path.stem}-*-of-*{path.suffix}"),
        key=lambda file: int(file.stem.split("-")[1]),
    )
    if not parts:
        return load_file(path)
    first, *others = map(load_file, parts)
    return {
        name: torch.cat([array, *(part[name] for part in others)]) if array.ndim else array
        for name, array in first.items()
    }


def write_arrays(path: Path, arrays: dict[str, Tensor], **about: str) -> None:
    save_file(arrays, path, metadata=about or None)

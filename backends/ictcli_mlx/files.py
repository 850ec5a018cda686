"""Read and write safetensors files, and flatten trees of arrays."""

from pathlib import Path
from typing import Any, cast

import mlx.core as mx
from mlx.utils import tree_flatten
from safetensors import safe_open


def flat(tree: Any) -> dict[str, mx.array]:
    """Return the arrays of a tree by dotted name."""
    return cast(dict[str, mx.array], dict(tree_flatten(tree)))


def number(value: mx.array) -> float:
    """Wait until a scalar array is computed, and return its value."""
    return float(cast(float, value.item()))


def write_arrays(path: Path, arrays: dict[str, mx.array], **about: str) -> None:
    """Write arrays sorted by name: equal arrays make equal files. `about` goes into the header."""
    mx.save_safetensors(str(path), dict(sorted(arrays.items())), {"format": "mlx", **about})


def read_arrays(path: Path) -> dict[str, mx.array]:
    """Return the arrays of a safetensors file. Raise SafetensorError if it is cut short."""
    with cast(Any, safe_open)(path, "np"):
        pass  # reads the header and compares it with the file's length
    arrays = cast(dict[str, mx.array], mx.load(str(path)))
    mx.eval(arrays)  # reads the arrays now: the file may be overwritten later
    return arrays

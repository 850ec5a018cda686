"""Trees of arrays by name, and in safetensors files."""

from pathlib import Path
from typing import Any, cast

import mlx.core as mx
from mlx.utils import tree_flatten
from safetensors import safe_open


def flat(tree: Any) -> dict[str, mx.array]:
    """Return a tree's arrays by their dotted names."""
    return cast(dict[str, mx.array], dict(tree_flatten(tree)))


def number(value: mx.array) -> float:
    """Return a scalar array's value: waits until it is computed."""
    return float(cast(float, value.item()))


def write_arrays(path: Path, arrays: dict[str, mx.array], **about: str) -> None:
    """Write arrays, equal ones as equal bytes: MLX writes them in the dict's order. `about` goes
    into the file's header."""
    mx.save_safetensors(str(path), dict(sorted(arrays.items())), {"format": "mlx", **about})


def read_arrays(path: Path) -> dict[str, mx.array]:
    """Return the arrays of a safetensors file. Raises SafetensorError where it is cut short."""
    with cast(Any, safe_open)(path, "np"):
        pass  # the header is read, and the file's length held against it
    arrays = cast(dict[str, mx.array], mx.load(str(path)))
    mx.eval(arrays)  # the file may be written again
    return arrays

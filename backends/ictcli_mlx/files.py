"""Arrays in safetensors files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import mlx.core as mx
from safetensors import safe_open


def write_arrays(path: Path, arrays: dict[str, mx.array]) -> None:
    """Equal arrays make equal bytes: MLX writes them in an order that follows the dict's."""
    mx.save_safetensors(str(path), dict(sorted(arrays.items())), metadata={"format": "mlx"})


def read_arrays(path: Path) -> dict[str, mx.array]:
    """The arrays, to be evaluated. Raises SafetensorError where the file is cut short."""
    with cast(Any, safe_open)(path, "np"):
        pass  # the header is read, and the file's length held against it
    return cast(dict[str, mx.array], mx.load(str(path)))

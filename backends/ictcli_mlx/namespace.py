"""mlx.core as the array namespace of the shared maths: what it lacks."""

from typing import Any

import mlx.core as mx


def __getattr__(name: str) -> Any:
    return getattr(mx, name)


def searchsorted(cdf: mx.array, target: mx.array, *, right: bool) -> mx.array:
    """(R, 1) insertion points of target (R, 1), to the right of equals, in rows of cdf (R, V)."""
    assert right
    return (cdf <= target).sum(axis=-1, keepdims=True)

"""Rotary positions on the CPU, where `mx.fast.rope` is some 28 kernels a call."""

import contextlib
from collections.abc import Generator
from functools import lru_cache
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten
from mlx_lm.models.rope_utils import SuScaledRoPE

from ictcli.engine.shape import rope_settings


def hold_frequencies(model: Any, config: dict[str, Any], length: int) -> None:
    """Rotate by LongRoPE's frequencies for sequences of `length` tokens at most: mlx-lm has those
    of long ones alone."""
    for module in model.modules():
        if type(module) is not SuScaledRoPE or length > module.original_max_position_embeddings:
            continue
        for rope in rope_settings(config):
            if "short_factor" in rope:
                short, long = (mx.array(rope[name]) for name in ("short_factor", "long_factor"))
                module._freqs = module._freqs / long * short
                module._scale = rope.get("short_mscale") or module._scale


@contextlib.contextmanager
def shared(model: Any) -> Generator[None]:
    """Within, a decoding step rotates the queries and keys of all layers by one matrix."""
    ropes = [(name, module) for name, module in model.named_modules() if type(module) is nn.RoPE]
    model.update_modules(tree_unflatten([(name, SharedRoPE(rope)) for name, rope in ropes]))
    try:
        yield
    finally:
        model.update_modules(tree_unflatten(ropes))


class SharedRoPE(nn.Module):
    """Computes what `rope` does. Several positions at once, and rows that stand at several, go
    through it."""

    def __init__(self, rope: nn.RoPE) -> None:
        super().__init__()
        self.rope = rope

    def __call__(self, x: mx.array, offset: Any = 0) -> mx.array:
        rope = self.rope
        if x.shape[-2] > 1 or not isinstance(offset, int):
            return rope(x, offset)
        matrix = _matrix(rope.dims, rope.traditional, rope.base, rope.scale, offset, x.shape[-1])
        return (x @ matrix).astype(x.dtype)


@lru_cache(maxsize=4)
def _matrix(
    dims: int, traditional: bool, base: float, scale: float, offset: int, width: int
) -> mx.array:
    """The rotation at a position, (width, width) float32: row i is what becomes of axis i."""
    rope = nn.RoPE(dims, traditional, base, scale)
    return rope(mx.eye(width)[:, None], offset)[:, 0]

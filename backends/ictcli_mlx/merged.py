"""A model whose adapters are fused, for export and for sampling."""

import contextlib
from collections.abc import Generator
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten
from mlx_lm.utils import dequantize_model

from .model import is_quantised, model_dtype


@contextlib.contextmanager
def fused(model: Any, *, packed: bool) -> Generator[None]:
    """Within, the model has no adapters and computes the same. Quantised weights are unpacked, or
    stay `packed`, which rounds the training to 4 or 8 bits too."""
    dtype = model_dtype(model)
    before = _replaced(model)
    plain = []
    for name, module in model.named_modules():
        if hasattr(module, "lora_a"):
            layer = module.fuse() if packed else _fused_unpacked(module, dtype)
            layer.set_dtype(dtype)
            plain.append((name, layer))
    model.update_modules(tree_unflatten(plain))
    try:
        if not packed:
            dequantize_model(model)
        yield
    finally:
        model.update_modules(tree_unflatten(before))


def _fused_unpacked(module: Any, dtype: mx.Dtype) -> Any:
    """An adapted layer as a plain one of `dtype`. The layer below is unpacked first: where some
    packings yield bfloat16, the adapter would be rounded to it."""
    if not is_quantised(module):
        return module.fuse()
    packed = module.linear
    unpacked: Any = dequantize_model(nn.Sequential(packed))
    dense = unpacked.layers[0]
    dense.set_dtype(dtype)
    module.linear = dense
    try:
        return module.fuse()
    finally:
        module.linear = packed


def _replaced(model: Any) -> list[tuple[str, Any]]:
    """The modules that fusing or unpacking exchanges, the outermost of each."""
    adapted = [
        (name, module)
        for name, module in model.named_modules()
        if hasattr(module, "lora_a") or hasattr(module, "bits")
    ]
    outer = {name for name, _ in adapted}
    return [(n, m) for n, m in adapted if n.rpartition(".")[0] not in outer]

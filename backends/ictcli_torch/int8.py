"""Sampling from a model whose linear layers are rounded to 8 bits, on x86 CPUs.

FBGEMM, which PyTorch brings, multiplies such layers at three to four times the rate of float32. A
weight has a scale for each of its outputs, an activation one for each token; adapters and
everything else stay as they are. The rounded model is another policy than the one that is trained:
`ictcli.algorithm.objective.policy_loss` weighs its tokens by the ratio of the two.
"""

import contextlib
from collections.abc import Generator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

LEVELS = 127
TINY = 1e-30
"""In place of a scale of 0."""


def available() -> bool:
    """Whether PyTorch has the kernels on this CPU."""
    return "fbgemm" in torch.backends.quantized.supported_engines


@contextlib.contextmanager
def rounded(model: nn.Module) -> Generator[None]:
    """Within, every linear layer but those of adapters multiplies in 8 bits. A weight that no
    update changes is rounded once, and kept."""
    layers = [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and "lora_" not in name
    ]
    try:
        for layer in layers:
            packed: Any = getattr(layer, "packed", None) or pack(layer.weight)
            if not layer.weight.requires_grad:
                layer.packed = packed  # pyright: ignore[reportArgumentType]
            layer.forward = partial(product, packed, layer.bias)
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)


@torch.no_grad()
def pack(weight: Tensor) -> Any:
    """A weight (O, I) in the order that FBGEMM reads it."""
    scales = weight.float().abs().amax(dim=1).clamp(min=TINY) / LEVELS
    zeros = torch.zeros(len(scales), dtype=torch.long)
    whole = torch.quantize_per_channel(weight.float(), scales, zeros, 0, torch.qint8)
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    try:
        return torch.ops.quantized.linear_prepack(whole, None)
    finally:
        torch.backends.quantized.engine = before


def product(packed: Any, bias: Tensor | None, x: Tensor) -> Tensor:
    """x W^T + b. FBGEMM has one scale for all activations, so each token is brought to the same
    size first."""
    size = x.float().abs().amax(dim=-1, keepdim=True).clamp(min=TINY)
    y = torch.ops.quantized.linear_dynamic((x / size).float(), packed, True) * size
    return (y if bias is None else y + bias).to(x.dtype)

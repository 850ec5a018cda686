"""Matrix products of large layers on x86 CPUs, by oneDNN, and attention of 16 bits in float32.

PyTorch gives float32 products to MKL, which leaves the widest vectors of AMD's processors unused
and is slow at the few rows of a decoding step. oneDNN, which PyTorch brings too and uses in 16 bits
itself, computes the same sums there in about half the time. In 16 bits PyTorch copies the whole
weight where a layer's input is a slice, as the LM head's is. Its kernel of attention for bfloat16
takes several times that of float32.
"""

import contextlib
import platform
from collections.abc import Generator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from ictcli.engine.dtype import X86, multiplies_bfloat16

from .plan import LARGE


class OneDnnLinear(nn.Linear):
    """A linear layer by oneDNN; a module of `nn.Linear` whose class was exchanged."""

    arranged: Tensor | None = None
    """The weight in oneDNN's own order."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        if self.arranged is not None:
            return _product(input, self.arranged, self.bias)
        return linear(input, self.weight, self.bias)


@contextlib.contextmanager
def arranged(model: nn.Module) -> Generator[None]:
    """Within, a product of few rows takes some 0.6 of its time, and each large layer holds its
    weight once more, in the order that oneDNN reads it. No gradient passes through."""
    layers = [module for module in model.modules() if isinstance(module, OneDnnLinear)]
    try:
        with torch.no_grad():
            for layer in layers:
                layer.arranged = torch.ops.mkldnn._reorder_linear_weight(layer.weight)
        yield
    finally:
        for layer in layers:
            layer.arranged = None


def by_onednn(model: nn.Module, device: torch.device) -> None:
    """Give the model's large layers to oneDNN where PyTorch has it: those of float32, and of
    bfloat16 where the CPU multiplies it."""
    if device.type != "cpu" or not available():
        return
    kinds = {torch.float32} | ({torch.bfloat16} if multiplies_bfloat16() else set())
    for module in model.modules():
        large = type(module) is nn.Linear and module.weight.numel() >= LARGE
        if large and module.weight.dtype in kinds:
            module.__class__ = OneDnnLinear


def available() -> bool:
    """A rule and no measurement: a run resumes with the arithmetic it began with."""
    if platform.machine() not in X86 or not torch.backends.mkldnn.is_available():
        return False
    return all(
        hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight")
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear` on a CPU."""
    if not x.numel():  # oneDNN has no gradient of nothing
        return nn.functional.linear(x, weight, bias)
    needs = x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    if needs and torch.is_grad_enabled():
        return _Linear.apply(x, weight, bias)
    return _product(x, weight, bias)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        dy = dy.contiguous()
        dx = dW = db = None
        if ctx.needs_input_grad[0]:
            dx = _product(dy, weight.t())
        flat = dy.flatten(0, -2)
        if ctx.needs_input_grad[1]:
            dW = _product(flat.t().contiguous(), x.flatten(0, -2).t())
        if ctx.needs_input_grad[2]:
            db = flat.sum(0)
        return dx, dW, db


ATTENTION = "ictcli_float32"


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **how: Any
) -> tuple[Tensor, None]:
    states = query.float(), key.float(), value.float()
    out, _ = sdpa_attention_forward(module, *states, mask, **how)
    return out.to(query.dtype), None


def in_float32(model: Any, device: torch.device) -> None:
    """Exchange the attention of a model of 16 bits on a CPU that would take PyTorch's."""
    AttentionInterface.register(ATTENTION, attend)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    stock = model.config._attn_implementation == "sdpa"
    if device.type == "cpu" and model.dtype != torch.float32 and stock:
        model.set_attn_implementation(ATTENTION)

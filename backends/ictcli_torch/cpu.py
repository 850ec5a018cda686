"""Faster matrix products of large layers on x86 CPUs.

PyTorch computes float32 products with MKL, which is slow for the few rows of a decoding step.
FBGEMM, included in PyTorch, is the fastest for few rows: it reads float16 weights and computes in
float32. oneDNN is faster than MKL, and with AVX-512 the fastest for many rows. In bfloat16 PyTorch
copies the whole weight if a layer's input is a slice, as for the LM head; oneDNN does not."""

import contextlib
import platform
from collections import Counter
from collections.abc import Generator
from typing import Any

import torch
from torch import Tensor, nn

from ictcli.engine.dtype import PACKING, X86, choose_kernels, in_float16

from .plan import LARGE


class LargeLinear(nn.Linear):
    """A linear layer with faster kernels; `exchange` turns an `nn.Linear` into one."""

    kernels: str
    """Name of the kernels. Those in `PACKING` use FBGEMM for frozen weights that fit float16;
    `avx2` uses MKL for the backward pass (`bench/products.py`). oneDNN computes the rest."""
    packed: Any = None
    """The weight and bias in float16, in FBGEMM's layout."""
    float16: Tensor | None = None
    """The weight, if it is kept only in float16: each access of `weight` converts it to float32."""
    arranged: Tensor | None = None
    """The weight in oneDNN's layout."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        x, weight, bias = input, self.held(), self.bias
        if not x.numel():  # oneDNN has no gradient for empty inputs
            return nn.functional.linear(x, self.weight, bias)
        needs = x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
        if needs and torch.is_grad_enabled():
            return _Linear.apply(x, weight, bias, self)
        return self.product(x)

    def __getattr__(self, name: str) -> Any:
        if name == "weight" and self.float16 is not None:
            return self.float16.float()
        return super().__getattr__(name)

    def held(self) -> Any:
        """Return the weight's parameter, which is on the meta device if `float16` is set."""
        return self._parameters["weight"]

    def product(self, x: Tensor) -> Tensor:
        """Return the layer's output, without support for gradients."""
        if self.packed is not None:
            return torch.ops.quantized.linear_dynamic_fp16(x, self.packed)
        return _product(x, self.weight if self.arranged is None else self.arranged, self.bias)


def exchange(model: nn.Module, device: torch.device, kernels: str) -> None:
    """Make large float32 layers use `kernels`, and bfloat16 layers if oneDNN supports bfloat16."""
    if device.type != "cpu" or kernels == "plain":
        return
    multiplies = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    kinds = {torch.float32, *([torch.bfloat16] if multiplies else [])}
    for module in model.modules():
        large = type(module) is nn.Linear and module.weight.numel() >= LARGE
        if large and module.weight.dtype in kinds:
            module.__class__ = LargeLinear
            vars(module)["kernels"] = kernels


def kernels_of(setting: str) -> str:
    """Return the kernels for an `engine.kernels`; `plain` if PyTorch lacks them on this CPU."""
    return choose_kernels(setting) if available() else "plain"


def available() -> bool:
    if platform.machine() not in X86 or not torch.backends.mkldnn.is_available():
        return False
    return all(
        hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight")
    )


def pack(model: nn.Module) -> None:
    """Convert the weights of the large layers that FBGEMM computes to its layout. These weights
    must not change afterwards, and are kept only in float16 if no other module reads them."""
    modules = [*model.modules()]
    held = Counter(id(p) for module in modules for p in module.parameters(recurse=False))
    for module in modules:  # peft's layers read their base layer's weight
        if "base_layer" in module._modules and not getattr(module, "takes_product", False):
            held.update(id(p) for p in module.get_submodule("base_layer").parameters())
    for layer in [m for m in modules if isinstance(m, LargeLinear) and m.kernels in PACKING]:
        if layer.packed is None:
            layer.packed = packed(layer.weight, layer.bias)
            if layer.packed is not None and held[id(layer.weight)] == 1:
                layer.float16 = layer.weight.detach().half()
                layer.weight = nn.Parameter(layer.held().to("meta"), requires_grad=False)


@contextlib.contextmanager
def in_whole(model: nn.Module) -> Generator[None]:
    """Give every layer a float32 weight inside the context."""
    layers = [x for x in model.modules() if isinstance(x, LargeLinear) and x.float16 is not None]
    without = [layer.held() for layer in layers]
    try:
        for layer in layers:
            layer.weight = nn.Parameter(layer.weight, requires_grad=False)
        yield
    finally:
        for layer, weight in zip(layers, without, strict=True):
            layer.weight = weight


@torch.no_grad()
def packed(weight: Tensor, bias: Tensor | None = None) -> Any:
    """Return a weight in FBGEMM's layout; None if it does not fit float16 or FBGEMM is missing."""
    if not has_fbgemm():
        return None
    for part in weight.split(4096):  # a copy of the whole LM head would raise peak memory
        if part.dtype != torch.float32 or not in_float16(part, half=Tensor.half):
            return None
    return torch.ops.quantized.linear_prepack_fp16(weight, bias)


def has_fbgemm() -> bool:
    has = hasattr(torch.ops.quantized, "linear_dynamic_fp16")
    return has and "fbgemm" in torch.backends.quantized.supported_engines


@contextlib.contextmanager
def arranged(model: nn.Module) -> Generator[None]:
    """Inside the context, copy large float32 weights that FBGEMM does not use to oneDNN's layout: a
    product of few rows then takes some 0.6 of the time. Gradients are not supported."""
    large = [module for module in model.modules() if isinstance(module, LargeLinear)]
    layers = [x for x in large if x.packed is None and x.held().dtype == torch.float32]
    try:
        with torch.no_grad():
            for layer in layers:
                layer.arranged = torch.ops.mkldnn._reorder_linear_weight(layer.weight)
        yield
    finally:
        for layer in layers:
            layer.arranged = None


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, layer: LargeLinear
    ) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        ctx.layer = layer
        return layer.product(x)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        dy, mkl = dy.contiguous(), ctx.layer.kernels == "avx2"
        dx = dW = db = None
        if ctx.needs_input_grad[0]:
            weight = weight if ctx.layer.float16 is None else ctx.layer.weight
            dx = dy @ weight if mkl else _product(dy, weight.t())
        flat = dy.flatten(0, -2)
        if ctx.needs_input_grad[1]:
            x = x.flatten(0, -2)
            dW = flat.t() @ x if mkl else _product(flat.t().contiguous(), x.t())
        if ctx.needs_input_grad[2]:
            db = flat.sum(0)
        return dx, dW, db, None

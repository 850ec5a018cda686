"""A model whose adapters are merged, for export, or computed once, for sampling."""

import contextlib
from collections.abc import Generator
from functools import partial
from typing import Any

import torch
from peft.tuners.lora import LoraLayer
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils.integrations import dequantize_module_weight
from torch import Tensor, nn

from ictcli.errors import UserError

from .adapter import NAME
from .cpu import LargeLinear


@contextlib.contextmanager
def merged(model: Any) -> Generator[None]:
    """Within, the model has no adapters, no weights of 4 bits, and computes the same. Its own
    layers come back untouched: what is merged are copies. UserError for adapters that are not of
    linear layers, or not low-rank ones: a run has none, a folder from elsewhere may."""
    exchanged = dict(_outermost(model))
    if any(not _can_be_merged(module) for module in exchanged.values()):
        raise UserError(
            "These adapters are of a kind that ictcli samples from and does not merge.",
            "peft's merge_and_unload does",
        )
    try:
        for name, module in exchanged.items():
            model.set_submodule(name, _plain_linear(module, model.dtype))
        yield
    finally:
        for name, module in exchanged.items():
            model.set_submodule(name, module)


def _outermost(model: nn.Module) -> Generator[tuple[str, Any]]:
    """Layers with adapters, and packed ones without."""
    below: set[int] = set()
    for name, module in model.named_modules():  # a layer comes before what it holds
        if isinstance(module, BaseTunerLayer):
            below.add(id(module.get_base_layer()))
            yield name, module
        elif _is_packed(module) and id(module) not in below:
            yield name, module


def _can_be_merged(module: Any) -> bool:
    if isinstance(module, LoraLayer):
        return isinstance(module.get_base_layer(), nn.Linear) and NAME in module.lora_A
    return not isinstance(module, BaseTunerLayer)


@torch.no_grad()
def _plain_linear(module: Any, dtype: torch.dtype) -> nn.Linear:
    """A layer with its adapter in it, as a plain one; the sum is made in float32."""
    base: Any = module.get_base_layer() if isinstance(module, LoraLayer) else module
    weight: Tensor = dequantize_module_weight(base)
    if isinstance(module, LoraLayer):
        weight = _sum(module, weight)
        if module.use_dora[NAME]:
            weight *= _stretch(module, weight)[:, None]
    out, inputs = weight.shape
    plain: Any = nn.Linear(inputs, out, bias=False, device="meta")
    if isinstance(base, LargeLinear):
        plain.__class__, plain.kernels = LargeLinear, base.kernels
    plain.weight = nn.Parameter(weight.detach().to(dtype), requires_grad=False)
    plain.bias = base.bias
    if isinstance(module, LoraLayer) and module.lora_bias[NAME]:
        lifted = base.bias.float() + module.lora_B[NAME].bias.float() * module.scaling[NAME]
        plain.bias = nn.Parameter(lifted.to(dtype), requires_grad=False)
    return plain


def _sum(layer: Any, weight: Tensor) -> Tensor:
    """W + scale B A."""
    A, B = layer.lora_A[NAME].weight, layer.lora_B[NAME].weight
    return torch.addmm(weight.float(), B.float(), A.float(), alpha=layer.scaling[NAME])


def _stretch(layer: Any, whole: Tensor) -> Tensor:
    """What DoRA multiplies the rows of W + scale B A with."""
    magnitude: Tensor = layer.lora_magnitude_vector[NAME].weight
    return magnitude / torch.linalg.norm(whole, dim=1)


def _is_packed(module: nn.Module) -> bool:
    return type(module).__name__ == "Linear4bit" and isinstance(module, nn.Linear)


def sampling(model: Any) -> contextlib.AbstractContextManager[Any]:
    """Within, the model decodes as fast as it can: DoRA's layers, which peft computes anew for
    every token, are merged, or where that would round what was trained, their norms kept."""
    layers = [module for module in model.modules() if isinstance(module, LoraLayer)]
    if not any(layer.use_dora[NAME] for layer in layers):
        return contextlib.nullcontext()
    exact = model.dtype == torch.float32 and not any(_is_packed(m) for m in model.modules())
    return merged(model) if exact and all(map(_can_be_merged, layers)) else _norms_kept(layers)


@contextlib.contextmanager
def _norms_kept(layers: list[Any]) -> Generator[None]:
    """Within, DoRA's layers know their norms: a number a row. peft's own cache (`DoraCaching`)
    keeps B A as well, a float32 matrix of the layer's size, and keeps it for good."""
    held = [layer for layer in layers if NAME in layer.lora_A and layer.use_dora[NAME]]
    try:
        for layer in held:
            with torch.no_grad():
                whole = _sum(layer, dequantize_module_weight(layer.get_base_layer()))
                layer.forward = partial(_with_norm, layer, _stretch(layer, whole))
        yield
    finally:
        for layer in held:
            layer.__dict__.pop("forward", None)


def _with_norm(layer: Any, factor: Tensor, x: Tensor, *args: Any, **options: Any) -> Tensor:
    """DoRA's layer, of which `factor` is m / ||W + scale B A||."""
    base = layer.base_layer(x)
    if layer.disable_adapters:
        return base
    A, B = layer.lora_A[NAME], layer.lora_B[NAME]
    low = B(A(x.to(A.weight.dtype))) * layer.scaling[NAME]
    plain = base if layer.base_layer.bias is None else base - layer.base_layer.bias
    return (base + (factor - 1) * plain + factor * low).to(base.dtype)

"""Give a model plain weights: adapters merged into copies of layers, 4-bit weights converted."""

import contextlib
from collections.abc import Generator
from itertools import chain
from typing import Any

import torch
from peft.tuners.lora import LoraLayer
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils.integrations import dequantize_module_weight
from torch import Tensor, nn

from ictcli.engine.dtype import OVERFLOWING, in_float16
from ictcli.errors import UserError

from .cpu import LargeLinear

NAME = "default"
"""The name that peft gives to an unnamed adapter."""


@contextlib.contextmanager
def merged(model: Any, *, exactly: bool = False) -> Generator[None]:
    """Inside the context, give the model plain layers: adapters merged, 4-bit weights converted.
    `exactly`: in a type that represents the trained weights, for export. The merged layers are
    copies; the model's own layers return unchanged at the end. Raise UserError if an adapter,
    loaded from elsewhere, is not low-rank or not on a linear layer."""
    exchanged, kept = dict(_outermost(model)), model.dtype
    if any(not _can_be_merged(module) for module in exchanged.values()):
        raise UserError(
            "ictcli can sample from adapters of this kind, but not merge them.",
            "merge them with peft's merge_and_unload",
        )
    dtype = _exact_type(model, exchanged) if exactly else kept
    others: list[tuple[nn.Parameter, Tensor]] = []
    try:
        for name, module in exchanged.items():
            model.set_submodule(name, _plain_linear(module, dtype))
        others += [(p, p.data) for p in model.parameters() if p.dtype == kept != dtype]
        for weight, values in others:
            weight.data = values.to(dtype)
        yield
    finally:
        for weight, values in others:
            weight.data = values
        for name, module in exchanged.items():
            model.set_submodule(name, module)


@torch.no_grad()
def _exact_type(model: Any, exchanged: dict[str, Any]) -> torch.dtype:
    """Return the dtype of a merged model: float16 if it represents the weights, else float32."""
    if model.config.model_type in OVERFLOWING:
        return torch.float32
    done = {id(p) for module in exchanged.values() for p in module.parameters()}
    done |= {id(p) for p in model.parameters() if p.dtype != model.dtype}  # never converted
    weights = ((p,) for p in model.parameters() if id(p) not in done)
    every = chain(weights, map(_whole, exchanged.values()))
    fits = all(in_float16(*weight, half=Tensor.half) for weight in every)
    return torch.float16 if fits else torch.float32


def _outermost(model: nn.Module) -> Generator[tuple[str, Any]]:
    below: set[int] = set()
    for name, module in model.named_modules():  # a module comes before its submodules
        if isinstance(module, BaseTunerLayer):
            below.add(id(module.get_base_layer()))
            yield name, module
        elif _is_packed(module) and id(module) not in below:
            yield name, module


def _can_be_merged(module: Any) -> bool:
    if isinstance(module, LoraLayer):
        plain = isinstance(module.get_base_layer(), nn.Linear) and NAME in module.lora_A
        return plain and NAME not in module.lora_variant
    return not isinstance(module, BaseTunerLayer)


@torch.no_grad()
def _plain_linear(module: Any, dtype: torch.dtype) -> nn.Linear:
    """Return a plain copy of a layer with its adapter merged in; the sum is computed in float32."""
    base: Any = module.get_base_layer() if isinstance(module, LoraLayer) else module
    weight = _whole(module)[0]
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


def _whole(module: Any) -> tuple[Tensor, Tensor | None]:
    """Return the weight of a layer with its adapter merged in, and the adapter's part of it."""
    if not isinstance(module, LoraLayer):
        return dequantize_module_weight(module), None
    layer: Any = module
    below: Tensor = dequantize_module_weight(layer.get_base_layer())
    A, B = layer.lora_A[NAME].weight, layer.lora_B[NAME].weight
    weight = torch.addmm(below.float(), B.float(), A.float(), alpha=layer.scaling[NAME])
    return weight, weight - below


def _is_packed(module: nn.Module) -> bool:
    return type(module).__name__ == "Linear4bit" and isinstance(module, nn.Linear)

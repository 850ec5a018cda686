"""A model of plain weights alone: adapters merged into copies of its layers, 4 bits unpacked."""

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
"""What peft calls an adapter that was given no name."""


@contextlib.contextmanager
def merged(model: Any, *, exactly: bool = False) -> Generator[None]:
    """Have the model compute the same without adapters and weights of 4 bits within; `exactly`: in
    a type that rounds away nothing that was trained, for a file. Its own layers come back
    untouched: what is merged are copies. UserError for adapters that are not of linear layers, or
    not low-rank ones: a run has none, a folder from elsewhere may."""
    exchanged, kept = dict(_outermost(model)), model.dtype
    if any(not _can_be_merged(module) for module in exchanged.values()):
        raise UserError(
            "ictcli can sample from adapters of this kind, but not merge them.",
            "peft's merge_and_unload does",
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
    """Return a merged model's type: float16 where that holds its weights, else float32."""
    if model.config.model_type in OVERFLOWING:
        return torch.float32
    done = {id(p) for module in exchanged.values() for p in module.parameters()}
    done |= {id(p) for p in model.parameters() if p.dtype != model.dtype}  # they keep their own
    weights = ((p,) for p in model.parameters() if id(p) not in done)
    every = chain(weights, map(_whole, exchanged.values()))
    fits = all(in_float16(*weight, half=Tensor.half) for weight in every)
    return torch.float16 if fits else torch.float32


def _outermost(model: nn.Module) -> Generator[tuple[str, Any]]:
    below: set[int] = set()
    for name, module in model.named_modules():  # a layer comes before what it holds
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
    """Return a layer with its adapter in it, as a plain one; the sum is made in float32."""
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
    """Return the weight of a layer with its adapter in it, and what of it is the adapter's."""
    if not isinstance(module, LoraLayer):
        return dequantize_module_weight(module), None
    layer: Any = module
    below: Tensor = dequantize_module_weight(layer.get_base_layer())
    A, B = layer.lora_A[NAME].weight, layer.lora_B[NAME].weight
    weight = torch.addmm(below.float(), B.float(), A.float(), alpha=layer.scaling[NAME])
    return weight, weight - below


def _is_packed(module: nn.Module) -> bool:
    return type(module).__name__ == "Linear4bit" and isinstance(module, nn.Linear)

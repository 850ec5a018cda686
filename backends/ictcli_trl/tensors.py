"""Tensors of one process, and of all of them: sharded ones made whole, whole ones sharded."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor


def whole(tensor: Tensor) -> Tensor:
    """A tensor, put together where every process holds a part of it. All have to be here."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def scattered(value: Tensor, like: Tensor) -> Tensor:
    """Rank 0's `value` in the type, place and parts of `like`. All have to be here; what the others
    bring is of its shape."""
    value = value.to(like.device, like.dtype)
    if isinstance(like, DTensor):
        return distribute_tensor(value, like.device_mesh, like.placements)
    if dist.is_initialized():
        dist.broadcast(value, 0)
    return value


@torch.no_grad()
def exchange(some: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> None:
    """Two sets of tensors of one layout change their values, each process its parts."""
    for name, tensor in some.items():
        one, other = (local(t) for t in (tensor, others[name]))
        kept = one.clone()
        one.copy_(other)
        other.copy_(kept)


def local(tensor: Tensor) -> Tensor:
    """This process's part."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor.data


def skeleton(module: Any, device: torch.device) -> Any:
    """A copy of a module with parameters that hold no numbers yet. Ties stay ties."""
    memo: dict[int, Any] = {
        id(p): nn.Parameter(torch.empty(0, dtype=p.dtype, device=device), requires_grad=False)
        for p in module.parameters()
    }
    return copy.deepcopy(module, memo)


def in_bfloat16(model: Any) -> None:
    """Have a skeleton take weights of bfloat16, but for adapters."""
    for name, p in model.named_parameters():
        if "lora_" not in name:
            p.data = p.data.bfloat16()

"""Weights that are spread over processes by PyTorch's `fully_shard`, and how they are put together:
some at once, or block by block."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from ictcli.engine.communicator import Communicator

from .files import Stored
from .model import blocks


class Root(nn.Module):
    """What FSDP takes for the whole model: a pass of ours runs within its forward."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, work: Callable[..., Tensor], *arguments: Any) -> Tensor:
        return work(self.model, *arguments)


def shard(model: Any, own: set[nn.Parameter], device: torch.device, computes: torch.dtype) -> Root:
    """Spread a model's weights over all processes, but for those that each keeps as its `own`."""
    how: dict[str, Any] = {"mesh": init_device_mesh(device.type, (dist.get_world_size(),))}
    if own:
        how["ignored_params"] = own
    elif computes != torch.float32:
        how["mp_policy"] = MixedPrecisionPolicy(
            param_dtype=computes, reduce_dtype=torch.float32, cast_forward_inputs=False
        )
    root = Root(model)
    for module in (*blocks(model), root):
        spread: Any = fully_shard(module, **how)
        spread.set_custom_all_gather(Counted(dist.all_gather_single))
        spread.set_custom_reduce_scatter(Counted(dist.reduce_scatter_single))
    return root._apply(
        lambda x: torch.empty_like(x, device=device) if x.device.type == "meta" else x
    )


def skeleton(module: Any, own: set[nn.Parameter], device: torch.device) -> Any:
    """A copy of a module with parameters that hold no numbers yet, but for those of `own`, which
    are shared. Ties stay ties."""

    def empty(p: nn.Parameter) -> nn.Parameter:
        return nn.Parameter(torch.empty(0, dtype=p.dtype, device=device), requires_grad=False)

    memo: dict[int, Any] = {id(p): p if p in own else empty(p) for p in module.parameters()}
    return copy.deepcopy(module, memo)


@torch.inference_mode(mode=False)
@torch.no_grad()
def whole(tensors: Sequence[Tensor], kind: torch.dtype | None = None) -> list[Tensor]:
    """Tensors, put together by one message where every process holds a part of their rows, in a
    type of their own or all in `kind`. All processes have to be here."""
    spread = [tensor for tensor in tensors if isinstance(tensor, DTensor)]
    if not spread:
        return [tensor.detach() for tensor in tensors]
    size = dist.get_world_size()
    rows = [-(-len(tensor) // size) for tensor in spread]
    sizes = [n * (tensor.numel() // len(tensor)) for n, tensor in zip(rows, spread, strict=True)]
    own = torch.zeros(sum(sizes), dtype=kind or spread[0].dtype, device=local(spread[0]).device)
    for tensor, place in zip(spread, own.split(sizes), strict=True):
        part = local(tensor)
        place[: part.numel()] = part.flatten()
    every = own.new_empty(size * len(own))
    dist.all_gather_single(every, own)
    Communicator.count(every.nbytes)
    found = [
        part.reshape(size * n, *tensor.shape[1:])[: len(tensor)]
        for part, n, tensor in zip(every.view(size, -1).split(sizes, 1), rows, spread, strict=True)
    ]
    return [found.pop(0) if isinstance(tensor, DTensor) else tensor.detach() for tensor in tensors]


def local(tensor: Tensor) -> Tensor:
    """This process's part."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def scattered(value: Tensor | Stored | None, like: Tensor) -> Tensor:
    """Rank 0's `value` in the type, place and parts of `like`. All have to be here; the others
    bring none."""
    held = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    if value is not None:
        held.copy_(value.read() if isinstance(value, Stored) else value)
    Communicator.count(held.nbytes)
    if isinstance(like, DTensor):
        return distribute_tensor(held, like.device_mesh, like.placements)
    dist.broadcast(held, 0)
    return held


class Counted:
    """A way to send of FSDP's, counted."""

    def __init__(self, send: Callable[..., Any]) -> None:
        self.send = send

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, **how: Any) -> Any:
        Communicator.count(max(output_tensor.nbytes, input_tensor.nbytes))
        return self.send(output_tensor, input_tensor, **how)


class BlockByBlock:
    """Has each block's weights put together for its own forward pass, and dropped after it.

    All processes put a block together at once, but they do not make as many passes: rows end early,
    and some have none. Whoever begins a pass asks the others along, and whoever has no more goes
    along until nobody begins another.
    """

    def __init__(
        self, blocks: nn.ModuleList, put: Callable[[int], None], drop: Callable[[int], None]
    ) -> None:
        self.put, self.drop, self.count = put, drop, len(blocks)
        self.next = 0
        """The block that all put together next; 0 between passes."""
        for number, block in enumerate(blocks):
            block.register_forward_pre_hook(partial(self._before, number))
            block.register_forward_hook(partial(self._after, number), always_call=True)

    def _before(self, number: int, *_: Any) -> None:
        if number == 0:
            self._finish()  # a pass that memory ran out in
            self._anyone(begins=True)
        assert number == self.next, "a pass goes through the blocks in their order"
        self._put()

    def _put(self) -> None:
        number, self.next = self.next, (self.next + 1) % self.count
        self.put(number)

    def _after(self, number: int, *_: Any) -> None:
        self.drop(number)

    def _skip(self) -> None:
        number = self.next
        self._put()
        self.drop(number)

    def _finish(self) -> None:
        while self.next:
            self._skip()

    def go_along(self) -> None:
        """Until no process begins another pass."""
        self._finish()
        while self._anyone(begins=False):
            self._skip()
            self._finish()

    @staticmethod
    def _anyone(*, begins: bool) -> bool:
        asked = torch.tensor([begins], dtype=torch.int32)
        dist.all_reduce(asked)
        Communicator.count(asked.nbytes)
        return bool(asked)

"""torch with NumPy's names for functions that it lacks or names differently."""

from typing import Any

import torch
from torch import Tensor


def __getattr__(name: str) -> Any:
    return getattr(torch, name)


def max(x: Tensor, axis: int, keepdims: bool = False) -> Tensor:  # noqa: A001
    return x.amax(axis, keepdim=keepdims)


def take_along_axis(x: Tensor, index: Tensor, axis: int) -> Tensor:
    return x.gather(axis, index)


def put_along_axis(x: Tensor, index: Tensor, values: Tensor, axis: int) -> Tensor:
    return x.scatter(axis, index, values)


def stop_gradient(x: Tensor) -> Tensor:
    return x.detach()

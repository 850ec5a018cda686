"""Sampling from a model whose linear layers are rounded to whole numbers of 8 bits, on x86 CPUs.

oneDNN multiplies such layers at some three times the rate of its float32. A weight has a scale for
each of its outputs, an activation one for each token; adapters and everything else stay as they
are. The rounded model is another policy than the one that is trained:
`ictcli.algorithm.objective.policy_loss` weighs its tokens by the ratio of the two.
"""

import contextlib
from collections.abc import Generator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

WEIGHTS, ACTIVATIONS = 63, 127
"""The largest of each. Two products of 255 and 63 fit into 16 bits, in which CPUs without VNNI add
them, and saturate."""
OFFSET = ACTIVATIONS + 1
"""Added to activations: oneDNN is fast where they are not signed."""
TINY = 1e-30
"""In place of a size of 0."""


class Rounded:
    """A weight (O, I) rounded to -63 .. 63 of its output's scale, in the order that oneDNN
    reads."""

    def __init__(self, weight: Tensor) -> None:
        parts = weight.detach().split(4096)  # a copy of a whole LM head would be the peak of memory
        sizes = [part.float().abs().amax(dim=1).clamp(min=TINY) for part in parts]
        self.scales = torch.cat(sizes) / WEIGHTS
        scales = self.scales[:, None].split(4096)
        whole = torch.empty(weight.shape, dtype=torch.int8)
        for part, scale, into in zip(parts, scales, whole.split(4096), strict=True):
            into.copy_((part.float() / scale).round_())
        self.offset = -OFFSET * self.scales * whole.sum(dim=1)
        """(O,) takes back what `OFFSET` adds to the products."""
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.arranged = torch.ops.onednn.qlinear_prepack(whole, None)

    def product(self, bias: Tensor | None, x: Tensor) -> Tensor:
        """x W^T + b of x (..., I)."""
        if not x.numel():
            return x.new_zeros((*x.shape[:-1], len(self.scales)))
        rows = x.reshape(-1, x.shape[-1]).float()
        sizes = rows.abs().amax(dim=1, keepdim=True).clamp(min=TINY) / ACTIVATIONS
        whole = (rows / sizes).round_().add_(OFFSET).to(torch.uint8)
        scales = 1.0, 0, self.arranged, self.scales, self.zeros
        after = 1.0, 0, torch.float32, "none", [], ""
        y = torch.ops.onednn.qlinear_pointwise(whole, *scales, self.offset, *after).mul_(sizes)
        if bias is not None:
            y += bias
        return y.to(x.dtype).reshape(*x.shape[:-1], len(self.scales))


@contextlib.contextmanager
def rounded(model: nn.Module) -> Generator[None]:
    """Within, every linear layer but those of adapters multiplies in 8 bits. A weight that no
    update changes is rounded once, and kept."""
    layers: list[Any] = []
    try:
        for name, module in model.named_modules():
            if not isinstance(module, nn.Linear) or "lora_" in name:
                continue
            layer: Any = module
            weight: Rounded = layer.__dict__.get("rounded") or Rounded(layer.weight)
            if not layer._parameters["weight"].requires_grad:  # `weight` may be made anew
                layer.__dict__["rounded"] = weight
            layers.append(layer)
            layer.forward = partial(weight.product, layer.bias)
        yield
    finally:
        for layer in layers:
            del layer.forward

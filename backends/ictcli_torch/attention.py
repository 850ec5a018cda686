"""Attention in float32 for models of 16 bits on a CPU.

PyTorch's kernel for bfloat16 there takes several times that of float32, where products are faster
in 16 bits and few numbers are attended to.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "ictcli_float32"


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **how: Any
) -> tuple[Tensor, None]:
    states = query.float(), key.float(), value.float()
    out, _ = sdpa_attention_forward(module, *states, mask, **how)
    return out.to(query.dtype), None


def in_float32(model: Any, device: torch.device) -> None:
    """Exchange the attention of a model of 16 bits on a CPU that would take PyTorch's."""
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    stock = model.config._attn_implementation == "sdpa"
    if device.type == "cpu" and model.dtype != torch.float32 and stock:
        model.set_attn_implementation(NAME)

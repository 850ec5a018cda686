"""Attention of tokens that are packed, no row padded: the rest of a block works token by token, and
a prompt is there once for all rows that share it.

transformers hands keyword arguments of a model on to the attention function, which takes the layout
of the tokens from there. On a CPU 16 bits attend in float32: PyTorch's own kernel for them takes
several times as long.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

ATTENTION = "ictcli_float32"
FLASH: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
States = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values, (B, heads, L, width)."""
Kept = dict[int, tuple[Tensor, Tensor]]
"""Keys and values of prompts by block."""
NO_MASK = torch.zeros((1, 1, 1, 1), dtype=torch.int8)
"""As transformers takes it for one that is made, it makes none. PyTorch takes none of this type."""


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    layout: Any = None,
    **how: Any,
) -> tuple[Tensor, None]:
    """Attend as transformers' function for PyTorch does, or as a layout does."""
    if layout is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **how)
    own = attention_mask is not None and attention_mask.dtype != NO_MASK.dtype
    assert not own and how.get("position_bias") is None, "the model makes a mask of its own"
    return layout.attend(module, (query, key, value), how), None


def _attend_in_float32(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *mask: Tensor | None, **how: Any
) -> tuple[Tensor, None]:
    out, _ = attend(module, query.float(), key.float(), value.float(), *mask, **how)
    return out.to(query.dtype), None


AttentionInterface.register("sdpa", attend)
AttentionInterface.register(ATTENTION, _attend_in_float32)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)


def in_float32(model: Any, device: torch.device) -> None:
    """Exchange the attention of a model of 16 bits on a CPU that would take PyTorch's."""
    stock = model.config._attn_implementation == "sdpa"
    if device.type == "cpu" and model.dtype != torch.float32 and stock:
        model.set_attn_implementation(ATTENTION)


@dataclass(frozen=True)
class Grid:
    """Rows (B, L) of tokens at any places of a pass; several places may hold the same token."""

    shape: tuple[int, int]
    tokens: Tensor | None = None
    """(B * L,) the token of each place, any where there is none; None: they are in order."""
    places: Tensor | None = None
    """(n,) a place of each token."""

    def spread(self, x: Tensor) -> Tensor:
        """Return (n, heads, width) as (B, heads, L, width)."""
        x = x if self.tokens is None else x[self.tokens]
        return x.reshape(*self.shape, *x.shape[1:]).transpose(1, 2)

    def gather(self, x: Tensor) -> Tensor:
        """Return (B, L, heads, width) as (n, heads, width)."""
        x = x.flatten(0, 1)
        return x if self.places is None else x.index_select(0, self.places)


@dataclass(frozen=True)
class Packed:
    """The layout of one row of tokens: so many of prompts, then those of the responses to them. A
    text with which several responses begin is there once."""

    tokens: int
    prompts: Grid
    responses: Grid | None = None
    of_row: Any = None
    """(R,) the prompt of each response."""
    mask: Tensor | None = None
    """(R or 1, 1, S, P + S) the prompt's places and the response's that each of its tokens sees."""
    kept: Kept | None = None
    """Where the prompts' keys and values are kept."""

    def attend(self, module: Any, states: States, how: dict[str, Any]) -> Tensor:
        rows = [x[0].transpose(0, 1) for x in states]
        ours = [x[: self.tokens] for x in rows]
        if self.responses is not None:  # autograd would keep the rows of all for a part of them
            ours = [x.clone() for x in ours]
        query, *pair = map(self.prompts.spread, ours)
        if self.kept is not None:
            assert module.layer_idx not in self.kept, "a block asks once"
            self.kept[module.layer_idx] = pair[0], pair[1]
        out, _ = sdpa_attention_forward(module, query, pair[0], pair[1], None, **how)
        out = self.prompts.gather(out)
        if self.responses is not None:
            query, *more = (self.responses.spread(x[self.tokens :]) for x in rows)
            pair = [torch.cat([x[self.of_row], y], 2) for x, y in zip(pair, more, strict=True)]
            own, _ = sdpa_attention_forward(module, query, pair[0], pair[1], self.mask, **how)
            out = torch.cat([out, self.responses.gather(own)])
        return out[None]


@dataclass(frozen=True)
class AfterPrompts:
    """The layout of a decoding step on a CPU: one token of each row, whose keys and values are in
    front of it from the end of its prompt on; the prompt's are read once for all its rows."""

    prompts: Kept
    mask: Tensor | None
    """(Q, 1, 1, P) what is added to the scores of the prompts' places."""
    rows: Grid
    """The rows alive of (Q, G)."""

    def attend(self, module: Any, states: States, how: dict[str, Any]) -> Tensor:
        query, key, value = states
        R, heads, _, width = query.shape
        (Q, G), shared, scale = self.rows.shape, key.shape[1], how.get("scaling")
        query = query.reshape(R, shared, -1, width)
        of_prompt = self.rows.spread(query.flatten(1, 2)).transpose(1, 2)  # (Q, G, heads, width)
        of_prompt = of_prompt.reshape(Q, G, shared, -1, width).transpose(1, 2).flatten(2, 3)
        pair = self.prompts[module.layer_idx]
        before, size = FLASH(of_prompt, *pair, attn_mask=self.mask, scale=scale)
        after, own_size = FLASH(query, key, value, scale=scale)

        def of_rows(x: Tensor) -> Tensor:  # (Q, shared, G * n, w) as (R, heads, w)
            x = x.unflatten(2, (G, -1)).transpose(1, 2)
            return self.rows.gather(x.reshape(Q, G, heads, -1))

        share = torch.sigmoid(of_rows(size[..., None]) - own_size.reshape(R, heads, 1))
        return torch.lerp(after.reshape(R, heads, -1), of_rows(before), share)[:, None]

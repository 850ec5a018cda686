"""Attention over packed tokens, without padding. Other layers work token by token, so a prompt that
several rows share needs to be in the pass only once.

transformers passes a model's keyword arguments on to the attention function, and ictcli adds the
tokens' layout. On a CPU, 16-bit models attend in float32, which is several times as fast.
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
"""Keys and values of the prompts, by number of the block."""
NO_MASK = torch.zeros((1, 1, 1, 1), dtype=torch.int8)
"""Passed as a mask so that transformers builds none. No real mask has this dtype."""


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    layout: Any = None,
    **how: Any,
) -> tuple[Tensor, None]:
    """Compute attention by `layout`; if it is None, as transformers does with PyTorch."""
    if layout is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **how)
    masked = attention_mask is not None and attention_mask.dtype != NO_MASK.dtype
    assert not masked and how.get("position_bias") is None, "the model passes its own mask"
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
    """Make a 16-bit model on a CPU attend in float32, if it uses PyTorch's attention (`sdpa`)."""
    stock = model.config._attn_implementation == "sdpa"
    if device.type == "cpu" and model.dtype != torch.float32 and stock:
        model.set_attn_implementation(ATTENTION)


@dataclass(frozen=True)
class Grid:
    """The layout of a pass's n tokens in rows (B, L), in which a token may appear several times."""

    shape: tuple[int, int]
    tokens: Tensor | None = None
    """(B * L,) index of the token at each place, arbitrary on padding; None: in order."""
    places: Tensor | None = None
    """(n,) index of one place of each token."""

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
    """Layout of a pass as one row without padding: the first `tokens` are prompts, the rest their
    responses. A beginning that several responses to a prompt share is stored once."""

    tokens: int
    prompts: Grid
    responses: Grid | None = None
    of_row: Any = None
    """(R,) the prompt of each response."""
    mask: Tensor | None = None
    """(R or 1, 1, S, P + S) which places of prompt and response each response token sees."""
    kept: Kept | None = None
    """If not None, this is filled with the prompts' keys and values."""

    def attend(self, module: Any, states: States, how: dict[str, Any]) -> Tensor:
        rows = [x[0].transpose(0, 1) for x in states]
        of_prompts = [x[: self.tokens] for x in rows]
        if self.responses is not None:  # autograd keeps all rows of a view
            of_prompts = [x.clone() for x in of_prompts]
        query, *pair = map(self.prompts.spread, of_prompts)
        if self.kept is not None:
            assert module.layer_idx not in self.kept, "a block attends only once"
            self.kept[module.layer_idx] = pair[0], pair[1]
        out, _ = sdpa_attention_forward(module, query, pair[0], pair[1], None, **how)
        out = self.prompts.gather(out)
        if self.responses is not None:
            query, *more = (self.responses.spread(x[self.tokens :]) for x in rows)
            pair = [torch.cat([x[self.of_row], y], 2) for x, y in zip(pair, more, strict=True)]
            last, _ = sdpa_attention_forward(module, query, pair[0], pair[1], self.mask, **how)
            out = torch.cat([out, self.responses.gather(last)])
        return out[None]


@dataclass(frozen=True)
class AfterPrompts:
    """The layout of a decoding step on a CPU: one token of each row. A row's cache holds only the
    tokens after its prompt; the prompt's keys and values are read once for all its rows."""

    prompts: Kept
    mask: Tensor | None
    """(Q, 1, 1, P) what is added to attention scores of prompt tokens; None without padding."""
    rows: Grid
    """Layout of the unfinished rows by prompt (Q, G)."""

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

"""The decoding step of dense models on a CPU: what transformers' modules compute, to the bit.

A step of a small model is some 300 short operations, and the modules around them take longer than
they do. Here are the operations alone, with weights, layers and rotations looked up once a pass.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from .decode import Prefix
from .passes import shares_prompts

FAMILIES = ("Llama", "Mistral", "Qwen2", "Qwen3")
"""Of transformers: RMS norms, rotations of whole heads, SwiGLU, and each block's two sums."""
NORMS = tuple(f".modeling_{name.lower()}.{name}RMSNorm.forward" for name in FAMILIES)
PARTS = {"DecoderLayer": "", "Attention": "self_attn", "MLP": "mlp"}
"""Of a block, by their names in transformers."""
Layer = Callable[[Tensor], Tensor]


def is_dense(model: Any) -> bool:
    """Whether `DenseDecoder` computes this model: its family's own forward passes are what it would
    run, from the model to its blocks. Adapters within these change nothing."""
    family = type(model).__name__.removesuffix("ForCausalLM")
    if model.device.type != "cpu" or model.dtype != torch.float32 or family not in FAMILIES:
        return False
    if model.config._attn_implementation != "sdpa" or not shares_prompts(model):
        return False
    place = f"transformers.models.{family.lower()}.modeling_{family.lower()}.{family}"
    parts = [("ForCausalLM", model), ("Model", model.model)]
    for block in model.model.layers:
        parts += [(name, block.get_submodule(path)) for name, path in PARTS.items()]
    return all(_runs(part) == f"{place}{name}.forward" for name, part in parts)


def _runs(module: Any) -> str:
    """The name of the function that a call runs; empty where hooks or a replacement run."""
    if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
        return ""
    return f"{module.forward.__module__}.{module.forward.__qualname__}"


class DenseDecoder:
    """`decode.GrowingDecoder` of these models."""

    def __init__(self, model: Any, prefix: Prefix, of_row: Tensor, steps: int) -> None:
        trunk, self._cache, filled = model.model, prefix.cache, prefix.cache.get_seq_length()
        self._cache.reorder_cache(of_row)
        self._embed, self._norm, self._head = trunk.embed_tokens, _norm(trunk.norm), model.lm_head
        self._blocks = [Block(*pair) for pair in zip(trunk.layers, self._cache.layers, strict=True)]
        cos, sin = trunk.rotary_emb(prefix.logits, torch.arange(filled + steps)[None])
        sin[..., : sin.shape[-1] // 2].neg_()  # of the half that is rotated with a minus
        self._cos, self._sin = cos[0, :, None, None], sin[0, :, None, None]
        self._filled, self._position = filled, prefix.lengths[of_row]
        self._mask: Tensor | None = None
        if prefix.mask is not None:
            self._mask = torch.zeros((len(of_row), 1, 1, filled + steps))
            self._mask[..., :filled][prefix.mask[of_row, None, None] == 0] = -torch.inf

    def step(self, token: Tensor) -> Tensor:
        self._filled += 1
        at = self._position if self._mask is not None else slice(self._filled - 1, self._filled)
        mask = None if self._mask is None else self._mask[..., : self._filled]
        x, cos, sin = self._embed(token), self._cos[at], self._sin[at]
        for block in self._blocks:
            block(x, cos, sin, mask)
        self._position = self._position + 1
        return self._head(self._norm(x))

    def keep(self, alive: Tensor) -> None:
        self._position = self._position[alive]
        self._cache.reorder_cache(alive)
        if self._mask is not None:
            mask = self._mask[alive]
            self._mask = mask if mask.any() else None


class Block:
    """A transformer block at one position of each row."""

    def __init__(self, block: Any, cache: Any) -> None:
        attention, mlp = block.self_attn, block.mlp
        self.attention, self.scaling = attention, attention.scaling
        self.cache, self.activate = cache, mlp.act_fn
        self.q, self.k, self.v, self.o = (_linear(getattr(attention, f"{n}_proj")) for n in "qkvo")
        self.gate, self.up, self.down = map(_linear, (mlp.gate_proj, mlp.up_proj, mlp.down_proj))
        self.first, self.second = map(
            _norm, (block.input_layernorm, block.post_attention_layernorm)
        )
        self.head_norms = [
            _norm(getattr(attention, f"{n}_norm")) for n in "qk" if hasattr(attention, f"{n}_norm")
        ]

    def __call__(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None) -> None:
        """Add to x (R, H) what the block does."""
        heads = len(x), -1, 1, self.attention.head_dim
        h = self.first(x)
        q, k, v = self.q(h).view(heads), self.k(h).view(heads), self.v(h).view(heads)
        if self.head_norms:
            q, k = self.head_norms[0](q), self.head_norms[1](k)
        keys, values = self.cache.update(_rotated(k, cos, sin), v)
        out, _ = sdpa_attention_forward(
            self.attention, _rotated(q, cos, sin), keys, values, mask, scaling=self.scaling
        )
        x += self.o(out.view(len(x), -1))
        h = self.second(x)
        x += self.down(self.activate(self.gate(h)).mul_(self.up(h)))


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return (x * cos).add_(x.roll(x.shape[-1] // 2, -1).mul_(sin))


def _linear(module: Any) -> Layer:
    if type(module) is not nn.Linear or not _runs(module):
        return module
    return partial(nn.functional.linear, weight=module.weight, bias=module.bias)


def _norm(module: Any) -> Layer:
    if not _runs(module).endswith(NORMS):
        return module
    weight, eps = module.weight, module.variance_epsilon

    def norm(x: Tensor) -> Tensor:
        scale = (x * x).mean(-1, keepdim=True).add_(eps).rsqrt_()
        return (x * scale).mul_(weight)

    return norm

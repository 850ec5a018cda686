"""The states that a pass wants, each prompt run once where its rows share it."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache, make_prompt_cache

from .model import Head, head_inputs


class PromptCache(KVCache):
    """Keeps the keys and values of one run, for `ResponseCache`."""

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        self.keys, self.values = keys, values
        return keys, values


class ResponseCache:
    """Puts the prompts' keys and values in front of those of their responses, and keeps none.

    `offset` (R,) is each row's next position; `prompt_mask` (R, P) is False on padding.
    """

    def __init__(
        self, prompts: PromptCache, of_row: mx.array, offset: mx.array, prompt_mask: mx.array
    ) -> None:
        self.keys, self.values = prompts.keys[of_row], prompts.values[of_row]
        self.offset, self._prompt_mask = offset, prompt_mask

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        keys = mx.concatenate([self.keys, keys], axis=2)
        return keys, mx.concatenate([self.values, values], axis=2)

    def make_mask(self, N: int, **kwargs: Any) -> mx.array:
        """(R, 1, N, P + N)."""
        R, P = self._prompt_mask.shape
        prompts = mx.broadcast_to(self._prompt_mask[:, None, None], (R, 1, N, P))
        causal = mx.broadcast_to(mx.tri(N, dtype=mx.bool_), (R, 1, N, N))
        return mx.concatenate([prompts, causal], axis=-1)


def shares_prompts(model: Any) -> bool:
    """Whether rows can share a prompt: every block looks back at all keys and values before it, and
    each row can have a mask and a position of its own."""
    if any(type(cache) is not KVCache for cache in make_prompt_cache(model)):
        return False
    rows = 13  # unlike any number of heads, with which a mask of rows could be confused
    ids, prompts = mx.zeros((rows, 2), dtype=mx.int32), mx.zeros((1, 2), dtype=mx.int32)
    of_row = mx.zeros((rows,), dtype=mx.int32)
    try:  # builds the graph of a pass, and evaluates nothing
        wanted_states(model, (), ids, mx.array([0]), prompts, mx.array([2]), of_row)
    except (ValueError, TypeError):
        return False
    return True


def wanted_states(
    model: Any,
    heads: Sequence[Head],
    ids: mx.array,
    places: mx.array,
    *prompts: mx.array,
) -> mx.array:
    """(N, H) states in front of the LM head at the flat `places` (N,). `prompts` are the arrays of
    `ictcli.engine.packing.Prompts`, where rows share them."""
    if not prompts:
        states = head_inputs(model, heads, ids)
    else:
        shared, lengths, of_row = prompts
        caches = [PromptCache() for _ in model.layers]
        states = head_inputs(model, heads, shared, caches)
        ends = states[mx.arange(len(shared)), lengths - 1]
        mask = (mx.arange(shared.shape[1]) < lengths[:, None])[of_row]
        offset = lengths[of_row]
        rows = [ResponseCache(cache, of_row, offset, mask) for cache in caches]
        states = head_inputs(model, heads, ids, rows)
        states = mx.concatenate([ends[of_row][:, None], states], axis=1)
    return states.reshape(-1, states.shape[-1])[places]

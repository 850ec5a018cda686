"""The key-value caches of lock-step decoding."""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, StaticLayer

from .attention import ATTENTION

CHUNK = 32
"""Free positions of a new cache, whose storage doubles when full."""


class GrowingLayer(DynamicLayer):
    """A full-attention layer that grows by chunks, so a decoded token is written, not copied.

    The stock layer concatenates: every step copies the whole cache. Here storage doubles when it is
    full, and `keys` and `values` are views of its filled part.
    """

    keys: Tensor
    values: Tensor
    _filled = 0
    _storage: tuple[Tensor, Tensor] | None = None

    def __init__(self, spare: list[Tensor], dtype: torch.dtype | None) -> None:
        super().__init__()
        self._dtype = dtype
        """Of the storage; None: that of the keys."""
        self._spare = spare
        """Storage that a layer of the cache has left, at most one: room for the next one's."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self._filled + key_states.shape[-2]
        if self._storage is None or end > self._storage[0].shape[-2]:
            length = max(2 * self._filled, end + CHUNK)
            self._grow((key_states, value_states), length)
        assert self._storage is not None
        for storage, new in zip(self._storage, (key_states, value_states), strict=True):
            storage[:, :, self._filled : end] = new
        self._filled = end
        self.keys, self.values = (storage[:, :, :end] for storage in self._storage)
        return self.keys, self.values

    def _grow(self, like: tuple[Tensor, Tensor], length: int) -> None:
        grown = []
        for old, entry in zip((self.keys, self.values), like, strict=True):
            rows, heads, _, width = entry.shape
            sizes, dtype = (rows, heads, length, width), self._dtype or entry.dtype
            new = torch.empty(sizes, dtype=dtype, device=entry.device)
            if self._filled:
                new[:, :, : self._filled] = old
            grown.append(new)
        self._storage = (grown[0], grown[1])

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Take the rows `beam_idx`, any number of times each, and the room already made."""
        if self._storage is not None:
            keys, values = self._storage
            self._storage = self._take(keys, beam_idx), self._take(values, beam_idx)
            self.keys, self.values = (s[:, :, : self._filled] for s in self._storage)

    def _take(self, storage: Tensor, rows: Tensor) -> Tensor:
        """Return storage[rows]. On a CPU it goes into spare room: the pages of a new tensor cost
        several times as much as the copy."""
        if storage.device.type != "cpu":
            return storage[rows]
        room = self._spare.pop() if self._spare else storage[:0]
        if len(room) < len(rows) or room.shape[1:] != storage.shape[1:]:
            room = torch.empty((len(rows), *storage.shape[1:]), dtype=storage.dtype)
        self._spare.append(storage)
        room = room[: len(rows)]
        torch.index_select(storage[:, :, : self._filled], 0, rows, out=room[:, :, : self._filled])
        return room


def new_cache(config: Any) -> DynamicCache:
    """Return the model's own kind of cache, its full-attention layers growing in place."""
    cache = DynamicCache(config=config)
    spare: list[Tensor] = []
    dtype = torch.float32 if config._attn_implementation == ATTENTION else None
    cache.layers = [
        GrowingLayer(spare, dtype) if type(layer) is DynamicLayer else layer
        for layer in cache.layers
    ]
    return cache


class FixedLayer(StaticLayer):
    """A full-attention layer whose keys and values keep their addresses: those of `rows` of another
    layer, in whose `filled` positions it begins, with room for `length`.

    The next ones are written at `place` (1,), a number on the device. The mask alone says how many
    there are.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, layer: Any, rows: Tensor, filled: int, length: int, place: Tensor) -> None:
        super().__init__(length)
        self._place = place
        self.keys, self.values = (
            _longer(x[:, :, :filled], rows, length) for x in (layer.keys, layer.values)
        )
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        for kept, new in ((self.keys, key_states), (self.values, value_states)):
            kept.index_copy_(2, self._place, new.to(kept.dtype))
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """Return a length so that the causal mask hides nothing, as if all were filled."""
        return self.max_cache_len - 1


def _longer(x: Tensor, rows: Tensor, length: int) -> Tensor:
    """Return `rows` of x, with zeros after: what a mask hides is multiplied by 0."""
    _, heads, filled, width = x.shape
    longer = torch.zeros((len(rows), heads, length, width), dtype=x.dtype, device=x.device)
    longer[:, :, :filled] = x[rows]
    return longer

"""Key-value caches for lock-step decoding."""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, StaticLayer

from .attention import ATTENTION

CHUNK = 32
"""Number of free positions in a new cache. Its storage doubles when full."""


class GrowingLayer(DynamicLayer):
    """Cache of a full-attention layer, in which a decoded token is written in place. transformers'
    layer copies the whole cache in every step. Here storage doubles when it is full, and `keys` and
    `values` are views of its filled part."""

    keys: Tensor
    values: Tensor
    _filled = 0
    _storage: tuple[Tensor, Tensor] | None = None

    def __init__(self, spare: list[Tensor], dtype: torch.dtype | None) -> None:
        super().__init__()
        self._dtype = dtype
        """Type of the storage; None: that of the keys."""
        self._spare = spare
        """At most one unused storage, which the layers of a cache share in turn."""

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
        """Keep the rows `beam_idx`, which may repeat, and their free positions."""
        if self._storage is not None:
            keys, values = self._storage
            self._storage = self._take(keys, beam_idx), self._take(values, beam_idx)
            self.keys, self.values = (s[:, :, : self._filled] for s in self._storage)

    def _take(self, storage: Tensor, rows: Tensor) -> Tensor:
        """Return storage[rows]. On a CPU it is copied into the unused storage: allocating a new
        tensor takes several times as long as the copy."""
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
    """Return a cache for the model whose full-attention layers grow in place."""
    cache = DynamicCache(config=config)
    spare: list[Tensor] = []
    dtype = torch.float32 if config._attn_implementation == ATTENTION else None
    cache.layers = [
        GrowingLayer(spare, dtype) if type(layer) is DynamicLayer else layer
        for layer in cache.layers
    ]
    return cache


class FixedLayer(StaticLayer):
    """Cache of a full-attention layer with fixed addresses and room for `length` positions. It
    starts with the first `filled` positions of the given `rows` of another layer. New keys and
    values are written at `place` (1,), on the device; the mask hides later positions."""

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
        """Return the full length, with which the causal mask hides nothing."""
        return self.max_cache_len - 1


def _longer(x: Tensor, rows: Tensor, length: int) -> Tensor:
    """Return `rows` of x padded with zeros: masked values must be finite, since 0 * inf is NaN."""
    _, heads, filled, width = x.shape
    longer = torch.zeros((len(rows), heads, length, width), dtype=x.dtype, device=x.device)
    longer[:, :, :filled] = x[rows]
    return longer

"""The key-value caches of lock-step decoding: mlx-lm's own, one a layer."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.models.cache import make_prompt_cache

from ictcli.errors import UserError


def new_cache(model: Any, lengths: Sequence[int]) -> list[Any]:
    """Empty caches for prompts of these lengths, side by side.

    Prompts of one length need no mask, and get the model's plain caches. Else they are the batched
    kind, which knows each row's padding; a model whose caches have none is refused.
    """
    caches = make_prompt_cache(model)
    if len(set(lengths)) == 1:
        return caches
    unknown = [type(cache).__name__ for cache in caches if not hasattr(cache, "merge")]
    if unknown:
        raise UserError(
            f"The model's {unknown[0]} of mlx-lm holds prompts of one length only.", "prompts=1"
        )
    return [cache.merge([cache] * len(lengths)) for cache in caches]


def pad(caches: Sequence[Any], lengths: Sequence[int], width: int) -> None:
    """Announce rows of these lengths, padded on the right to `width`; `settle` afterwards."""
    padding = [width - length for length in lengths]
    for cache in caches:
        cache.prepare(lengths=list(lengths), right_padding=padding)


def settle(caches: Sequence[Any]) -> None:
    """Move each row's padding to its left, where decoding leaves it."""
    for cache in caches:
        cache.finalize()


def take(caches: Sequence[Any], rows: mx.array) -> None:
    """Keep the rows (R',), any number of times each."""
    for cache in caches:
        if hasattr(cache, "caches"):  # a layer of several
            take(cache.caches, rows)
        elif hasattr(cache, "filter"):
            cache.filter(rows)
        elif not cache.empty():
            cache.keys, cache.values = tree_map(lambda x: x[rows], (cache.keys, cache.values))


def arrays(caches: Sequence[Any]) -> Any:
    """What the caches hold, to be evaluated."""
    return [cache.state for cache in caches]

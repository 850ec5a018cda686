"""Exact selection of a share of tokens, by score or at random, as a boolean mask (B, T)."""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from ictcli.types import BoolArray, FloatArray, IntArray

Scope = Literal["response", "group", "batch"]


def share_count(keep: float, tokens: int) -> int:
    """Return ceil(keep * tokens), immune to the last bit of the product (0.1 * 70 is 7, not 8)."""
    return int(np.ceil(keep * tokens - 1e-9))


def units(valid: BoolArray, scope: Scope, group: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the sets of tokens in which a share is taken, as (rows, positions): each response, each
    group or the whole batch."""
    B = len(valid)
    size = {"response": 1, "group": group, "batch": B}[scope]
    for first in range(0, B, size):
        rows, positions = np.nonzero(valid[first : first + size])
        yield rows + first, positions


def top_share(
    score: FloatArray,
    valid: BoolArray,
    keep: float,
    *,
    scope: Scope = "response",
    group: int = 1,
    zeros: bool = False,
) -> BoolArray:
    """Return a mask of the ceil(keep * n) tokens with the highest scores in each set of n
    (`units`).

    Ties are broken by the earlier position, then the earlier row. Unless `zeros`, tokens with score
    0 are never kept, so fewer than the share may be kept. Ours: the ICT paper keeps every position
    at or above the percentile, ties included; with ties at 0 that is far more than the share."""
    kept = np.zeros(valid.shape, dtype=bool)
    for rows, positions in units(valid, scope, group):
        values = score[rows, positions]
        order = np.lexsort((rows, positions, -values))
        best = order[: share_count(keep, len(values))]
        if not zeros:
            best = best[values[best] > 0]
        kept[rows[best], positions[best]] = True
    return kept


def random_share(
    valid: BoolArray,
    keep: float,
    rng: np.random.Generator,
    *,
    scope: Scope = "response",
    group: int = 1,
    among: BoolArray | None = None,
) -> BoolArray:
    """Return a mask of ceil(keep * n) tokens in each set of n (`units`), drawn uniformly without
    replacement from the tokens in `among`; all of these if they are fewer."""
    score = np.zeros(valid.shape)
    score[valid] = rng.random(int(valid.sum()))  # draws do not depend on padding
    among = valid if among is None else among
    score[~among] = -1
    return top_share(score, valid, keep, scope=scope, group=group, zeros=True) & among

"""Exact selection: the best-scored share of tokens, or a random one, as a boolean mask (B, T)."""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from ictcli.types import BoolArray, FloatArray, IntArray

Scope = Literal["response", "group", "batch"]


def share_count(keep: float, tokens: int) -> int:
    """Return ceil(keep * tokens), immune to the last bit of the product (0.1 * 70 is 7, not 8)."""
    return int(np.ceil(keep * tokens - 1e-9))


def units(valid: BoolArray, scope: Scope, group: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the sets that a share is taken of: (rows, positions) of the tokens of each response,
    each prompt's group, or the whole batch."""
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
    """Return the ceil(keep * n) highest scores of each unit of n tokens.

    Ties are broken by the earlier position, then the earlier row. Unless `zeros`, a score of 0 is
    never kept, so fewer may be. Ours: the ICT paper keeps every position at or above the
    percentile, ties included, which on ties at 0 keeps far more than the share it names.
    """
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
    """Return ceil(keep * n) tokens of each unit of n, drawn uniformly without replacement from
    those `among`, or all of these if they are fewer."""
    score = np.zeros(valid.shape)
    score[valid] = rng.random(int(valid.sum()))  # padding takes no draws
    among = valid if among is None else among
    score[~among] = -1
    return top_share(score, valid, keep, scope=scope, group=group, zeros=True) & among

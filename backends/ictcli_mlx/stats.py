"""Token statistics on the device."""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import mlx.core as mx
import numpy as np

from ictcli.algorithm.objective import pick
from ictcli.algorithm.quantities import GROUP_QUANTITY, ROW_QUANTITY, of_token
from ictcli.engine import stats
from ictcli.types import FloatArray, IntArray

PENDING_ELEMENTS = 1 << 15
"""Logits whose statistics are taken in one go: 128 KB, which a core's own cache holds."""


GPU_ELEMENTS = 1 << 26
"""The same where there is no cache to fit and every call costs a launch: 256 MB."""


class StatsRecorder(stats.StatsRecorder):
    """`ictcli.engine.stats` of logits."""

    def __init__(self, wanted: Sequence[str], B: int, T: int, group: int, compiled: bool) -> None:
        at_once = PENDING_ELEMENTS if mx.default_device().type == mx.cpu else GPU_ELEMENTS
        super().__init__(mx, wanted, B, T, group, PENDING_ELEMENTS, at_once)
        self._quantity = partial(_quantity, compiled=compiled)

    def measure(
        self, values: mx.array, tokens: IntArray, apart: IntArray, counts: IntArray
    ) -> tuple[dict[str, mx.array], dict[str, mx.array]]:
        p = mx.softmax(values, axis=-1)
        rows = {n: self._quantity(n)(p) for n in ROW_QUANTITY if n in self.wanted}
        for name in self.of_token:
            rows[name] = pick(mx, of_token(mx, name, p), mx.array(tokens))
        divergences: dict[str, mx.array] = {}
        if len(apart) and self.divergences:
            own = p if len(apart) == len(p) else p[mx.array(apart)]
            divergences = self._from_mean(own, counts)
        # bounds memory: the temporaries of a part are many times its logits
        mx.async_eval(rows, divergences)
        return rows, divergences

    def _from_mean(self, p: mx.array, counts: IntArray) -> dict[str, mx.array]:
        """Divergence of each row p (M, V) from the mean of its segment."""
        K, W = len(counts), int(counts.max())
        if len(p) == K * W:
            p = p.reshape(K, W, -1)
            mean = p.mean(axis=1, keepdims=True)
        else:  # segments as slots of the largest's size; empty ones repeat a row and count 0
            starts, offsets = np.cumsum(counts) - counts, np.arange(W)
            real = offsets < counts[:, None]
            slots = p[mx.array(starts[:, None] + np.where(real, offsets, 0))]
            share = mx.array((real / counts[:, None]).astype(np.float32))
            means = (slots * share[:, :, None]).sum(axis=1)
            mean = means[mx.array(np.repeat(np.arange(K), counts))]
        return {n: self._quantity(n)(p, mean).reshape(-1) for n in self.divergences}

    def to_host(self, values: mx.array) -> FloatArray:
        return np.array(values)


@cache
def _quantity(name: str, compiled: bool) -> Any:
    """A quantity over mlx.core; compiled, its dozen passes over (N, V) become one or two."""
    function = partial((ROW_QUANTITY | GROUP_QUANTITY)[name], mx)
    return mx.compile(function, shapeless=True) if compiled else function

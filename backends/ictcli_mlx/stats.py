"""Token statistics on the device."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import mlx.core as mx
import numpy as np

from ictcli.algorithm.quantities import Statistic
from ictcli.engine import stats
from ictcli.types import FloatArray, IntArray

from .plan import GPU_ELEMENTS, PENDING_ELEMENTS


class StatsRecorder(stats.StatsRecorder):
    """`ictcli.engine.stats` of logits."""

    def __init__(self, wanted: Sequence[str], B: int, T: int, group: int, compiled: bool) -> None:
        at_once = PENDING_ELEMENTS if mx.default_device().type == mx.cpu else GPU_ELEMENTS
        super().__init__(mx, wanted, B, T, group, PENDING_ELEMENTS, at_once)
        self._compiled = compiled

    def formula(self, name: str) -> Callable[..., mx.array]:
        return _compiled(self.wanted[name]) if self._compiled else super().formula(name)

    def measure(
        self, values: mx.array, tokens: IntArray, apart: IntArray, counts: IntArray
    ) -> tuple[dict[str, mx.array], dict[str, mx.array]]:
        measured = super().measure(values, tokens, apart, counts)
        # bounds memory: the temporaries of a part are many times its logits
        mx.async_eval(measured)
        return measured

    def means(self, p: mx.array, counts: IntArray) -> tuple[mx.array, mx.array]:
        K, W = len(counts), int(counts.max())
        if len(p) == K * W:
            p = p.reshape(K, W, -1)
            return p, p.mean(axis=1, keepdims=True)
        # segments as slots of the largest's size; empty ones repeat a row and count 0
        starts, offsets = np.cumsum(counts) - counts, np.arange(W)
        real = offsets < counts[:, None]
        slots = p[mx.array(starts[:, None] + np.where(real, offsets, 0))]
        share = mx.array((real / counts[:, None]).astype(np.float32))
        means = (slots * share[:, :, None]).sum(axis=1)
        return p, means[mx.array(np.repeat(np.arange(K), counts))]

    def on_device(self, places: IntArray) -> mx.array:
        return mx.array(places)

    def to_host(self, values: mx.array) -> FloatArray:
        return np.array(values)


@cache
def _compiled(each: Statistic) -> Any:
    """Its dozen passes over (N, V) become one or two."""
    return mx.compile(partial(each, mx), shapeless=True)

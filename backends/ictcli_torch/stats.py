"""Token statistics on the device."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ictcli.algorithm.objective import pick
from ictcli.algorithm.quantities import GROUP_QUANTITY, ROW_QUANTITY, of_token
from ictcli.engine import stats
from ictcli.types import FloatArray, IntArray

from . import namespace

PENDING_ELEMENTS = 1 << 18
"""Logits whose statistics are taken in one go: 1 MB, which a core's cache holds."""


GPU_ELEMENTS = 1 << 26
"""The same where there is no cache to fit and every call costs a launch: 256 MB."""


class StatsRecorder(stats.StatsRecorder):
    """`ictcli.engine.stats` of logits."""

    def __init__(self, wanted: Sequence[str], B: int, T: int, group: int, device: torch.device):
        at_once = PENDING_ELEMENTS if device.type == "cpu" else GPU_ELEMENTS
        super().__init__(namespace, wanted, B, T, group, PENDING_ELEMENTS, at_once)
        self.device = device

    def measure(
        self, values: Tensor, tokens: IntArray, apart: IntArray, counts: IntArray
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        p = torch.softmax(values, dim=-1)
        rows = {n: of(namespace, p) for n, of in ROW_QUANTITY.items() if n in self.wanted}
        for name in self.of_token:
            rows[name] = pick(namespace, of_token(namespace, name, p), self._index(tokens))
        if not len(apart) or not self.divergences:
            return rows, {}
        own = p if len(apart) == len(p) else p[self._index(apart)]
        member = self._index(np.repeat(np.arange(len(counts)), counts))
        mean = torch.zeros((len(counts), p.shape[1]), device=self.device)
        mean = (mean.index_add_(0, member, own) / self._index(counts)[:, None])[member]
        return rows, {n: GROUP_QUANTITY[n](namespace, own, mean) for n in self.divergences}

    def to_host(self, values: Tensor) -> FloatArray:
        return values.cpu().numpy()

    def _index(self, places: IntArray) -> Tensor:
        return torch.from_numpy(places).to(self.device, torch.long)

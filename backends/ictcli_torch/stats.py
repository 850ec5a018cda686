"""Token statistics on the device."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ictcli.engine import stats
from ictcli.types import FloatArray, IntArray

from . import namespace
from .plan import GPU_ELEMENTS, PENDING_ELEMENTS


class StatsRecorder(stats.StatsRecorder):
    """`ictcli.engine.stats` of logits."""

    def __init__(self, wanted: Sequence[str], B: int, T: int, group: int, device: torch.device):
        at_once = PENDING_ELEMENTS if device.type == "cpu" else GPU_ELEMENTS
        super().__init__(namespace, wanted, B, T, group, PENDING_ELEMENTS, at_once)
        self.device = device

    def means(self, p: Tensor, counts: IntArray) -> tuple[Tensor, Tensor]:
        member = self.on_device(np.repeat(np.arange(len(counts)), counts))
        total = torch.zeros((len(counts), p.shape[1]), device=self.device).index_add_(0, member, p)
        return p, (total / self.on_device(counts)[:, None])[member]

    def on_device(self, places: IntArray) -> Tensor:
        return torch.from_numpy(places).to(self.device, torch.long)

    def to_host(self, values: Tensor) -> FloatArray:
        return values.cpu().numpy()

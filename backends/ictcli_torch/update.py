"""The forward and backward pass of one micro-batch (`ictcli.engine.core` loops over them)."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictcli.algorithm.objective import policy_loss, token_logp
from ictcli.engine.packing import MicroBatch
from ictcli.engine.update import Update
from ictcli.types import FloatArray

from . import namespace
from .model import head_only_at, recomputing


class Passes:
    """Forward and backward passes of one model."""

    def __init__(self, model: Any, *, recompute: bool) -> None:
        self.model, self.recompute = model, recompute

    @torch.inference_mode()
    def logits(self, batch: MicroBatch) -> FloatArray:
        """(N, V) float32 at the wanted places."""
        return head_logits(self.model, batch).cpu().numpy()

    @torch.inference_mode()
    def logprobs(self, batch: MicroBatch, temperature: float) -> FloatArray:
        """(N,) float32 log-probabilities of the wanted tokens."""
        targets = self._on_device(batch.targets).long()
        return (
            token_logp(namespace, head_logits(self.model, batch), targets, temperature)
            .cpu()
            .numpy()
        )

    def backward(
        self, batch: MicroBatch, terms: dict[str, FloatArray], whole: Update
    ) -> tuple[float, FloatArray, float]:
        """Add the gradient of one pass over the `whole` to the parameters' `.grad`; returns the
        pass's loss, log pi (N,) and summed KL."""
        arrays = {name: self._on_device(values) for name, values in terms.items()}
        targets = self._on_device(batch.targets).long()
        with recomputing(self.model, self.recompute):
            logits = head_logits(self.model, batch)
            loss, logp, kl = policy_loss(namespace, logits, targets, arrays, whole.objective)
            loss.backward()
        return float(loss.detach()), logp.detach().cpu().numpy(), float(kl.detach().sum())

    def _on_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.model.device)


def head_logits(model: Any, batch: MicroBatch) -> Tensor:
    """(N, V) float32 logits at the wanted places."""
    ids, head = (torch.from_numpy(x).to(model.device) for x in (batch.ids, batch.head))
    with head_only_at(model, head):
        return model(input_ids=ids, use_cache=False).logits.float()

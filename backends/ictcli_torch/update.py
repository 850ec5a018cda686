"""The forward and backward pass of one micro-batch (`ictcli.engine.core` loops over them)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictcli.algorithm.objective import Objective, policy_loss, token_logp
from ictcli.engine.packing import MicroBatch
from ictcli.types import FloatArray

from . import namespace
from .model import head_only_at


def head_logits(model: Any, batch: MicroBatch) -> Tensor:
    """(N, V) float32 logits at the wanted places."""
    ids, head = (torch.from_numpy(x).to(model.device) for x in (batch.ids, batch.head))
    with head_only_at(model, head):
        return model(input_ids=ids, use_cache=False).logits.float()


@torch.inference_mode()
def logits(model: Any, batch: MicroBatch) -> FloatArray:
    """(N, V) float32 at the wanted places."""
    return head_logits(model, batch).cpu().numpy()


@torch.inference_mode()
def logprobs(model: Any, batch: MicroBatch, temperature: float) -> FloatArray:
    """(N,) float32 log-probabilities of the wanted tokens."""
    return (
        token_logp(namespace, head_logits(model, batch), _targets(model, batch), temperature)
        .cpu()
        .numpy()
    )


def backward(
    model: Any, batch: MicroBatch, terms: Mapping[str, FloatArray], objective: Objective
) -> tuple[float, FloatArray, float]:
    """Add the gradient of a pass to the parameters' `.grad`: its loss, log pi (N,), summed KL."""
    on_device = {name: torch.from_numpy(x).to(model.device) for name, x in terms.items()}
    loss, logp, kl = policy_loss(
        namespace, head_logits(model, batch), _targets(model, batch), on_device, objective
    )
    loss.backward()
    return float(loss.detach()), logp.detach().cpu().numpy(), float(kl.detach().sum())


def _targets(model: Any, batch: MicroBatch) -> Tensor:
    return torch.from_numpy(batch.targets.astype(np.int64)).to(model.device)

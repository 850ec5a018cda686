"""One optimiser step on L = -sum w * Psi, pass by pass (`ictcli.engine.packing`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictcli.algorithm.objective import Objective, k3, surrogate
from ictcli.algorithm.quantities import entropy
from ictcli.engine import packing
from ictcli.engine.budget import Budget
from ictcli.types import BoolArray, FloatArray, Rollouts, UpdateReport

from .model import head_only_at, text_config
from .optimizer import Optimizer


@dataclass(frozen=True)
class Pass:
    """A micro-batch, and its tensors."""

    packed: packing.MicroBatch
    ids: Tensor
    head: Tensor
    targets: Tensor

    def take(self, values: FloatArray) -> Tensor:
        """(N,) of (B, T) values at the wanted tokens."""
        return torch.from_numpy(self.packed.take(values)).to(self.ids.device)


def micro_batches(
    model: Any, rollouts: Rollouts, wanted: BoolArray, budget: Budget
) -> Iterator[Pass]:
    """The passes over the wanted tokens (B, T), as tensors on the model's device."""
    for packed in budget.micro_batches(rollouts, wanted, text_config(model).vocab_size):
        ids, head, targets = (
            torch.from_numpy(x).to(model.device)
            for x in (packed.ids, packed.head, packed.targets.astype(np.int64))
        )
        yield Pass(packed, ids, head, targets)


def head_logits(model: Any, batch: Pass) -> Tensor:
    """(N, V) float32 logits at the wanted places."""
    with head_only_at(model, batch.head):
        return model(input_ids=batch.ids, use_cache=False).logits.float()


def token_logp(logits: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """(N,) log-probability of the targets under softmax(logits / temperature)."""
    scaled = logits if temperature == 1 else logits / temperature
    return scaled.gather(1, targets[:, None])[:, 0] - torch.logsumexp(scaled, dim=-1)


@torch.inference_mode()
def logprobs(
    model: Any, rollouts: Rollouts, temperature: float, budget: Budget, wanted: BoolArray
) -> FloatArray:
    """(B, T) float32 log-probabilities at the wanted tokens, 0 elsewhere."""
    found = np.zeros(rollouts.tokens.shape, dtype=np.float32)
    for batch in micro_batches(model, rollouts, wanted, budget):
        logp = token_logp(head_logits(model, batch), batch.targets, temperature)
        found[batch.packed.rows, batch.packed.positions] = logp.cpu().numpy()
    return found


@torch.inference_mode()
def logits_at(model: Any, rollouts: Rollouts, where: BoolArray, budget: Budget) -> FloatArray:
    """(N, V) float32 logits at the True places of `where` (B, T), in row-major order."""
    order = np.full(where.shape, -1)
    order[where] = np.arange(int(where.sum()))
    vocabulary = text_config(model).vocab_size
    found = np.zeros((int(where.sum()), vocabulary), dtype=np.float32)
    for batch in micro_batches(model, rollouts, where, budget):
        place = order[batch.packed.rows, batch.packed.positions]
        found[place] = head_logits(model, batch).cpu().numpy()
    return found


def backward(
    model: Any,
    reference: Callable[[], AbstractContextManager[Any]] | None,
    rollouts: Rollouts,
    weights: FloatArray,
    advantage: FloatArray,
    objective: Objective,
    budget: Budget,
    old_logp: FloatArray | None,
    kl_old: FloatArray | None,
) -> packing.Tally:
    """Add the gradient of the whole batch to the parameters' `.grad`. Within `reference()` is the
    reference policy, for kl > 0."""
    wanted = packing.trained(weights, advantage, objective, kl_old)
    tally = packing.Tally(np.zeros(rollouts.tokens.shape, dtype=np.float32))
    A_BT = np.broadcast_to(advantage[:, None], wanted.shape)
    for batch in micro_batches(model, rollouts, wanted, budget):
        anchor = _reference_logp(reference, batch, objective) if reference else None
        logits = head_logits(model, batch)
        logp = token_logp(logits, batch.targets, objective.temperature)
        old = logp.detach() if old_logp is None else batch.take(old_logp)
        A, w = batch.take(A_BT), batch.take(weights)
        psi, kl = surrogate(torch, logp, old, A, objective), 0.0
        if anchor is not None:
            divergence = k3(torch, logp, anchor)
            psi = psi - objective.kl * divergence
            kl = float(divergence.detach().sum())
        if objective.entropy != 0:
            psi = psi + objective.entropy * entropy(torch, torch.softmax(logits, dim=-1))
        if kl_old is not None:
            psi = psi - batch.take(kl_old) * (logp - old).abs()
        loss = -(w * psi).sum()
        loss.backward()
        seen = (x.detach().cpu().numpy() for x in (logp, old, A))
        tally.add(batch.packed, objective, float(loss.detach()), kl, *seen)
    return tally


def _reference_logp(
    reference: Callable[[], AbstractContextManager[Any]], batch: Pass, objective: Objective
) -> Tensor:
    """(N,) at the wanted tokens; its logits are gone before the policy's are made."""
    with torch.inference_mode(), reference() as model:
        found = token_logp(head_logits(model, batch), batch.targets, objective.temperature)
    return found.clone()  # one that may meet autograd


def step(optimizer: Optimizer, lr: float, tally: packing.Tally) -> UpdateReport:
    """Clip the accumulated gradient and step, unless there is none or it is not finite."""
    grad_norm = optimizer.clip()
    report = tally.report(grad_norm, finite=bool(np.isfinite([grad_norm, tally.loss]).all()))
    if report.stepped:
        optimizer.step(lr)
    optimizer.drop_gradient()
    return report

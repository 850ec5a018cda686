"""One optimiser step on L = -sum w * Psi, and the passes it is made of.

Sequences are prompt + response, padded on the right: under a causal mask padding changes nothing
before it, so no mask is needed. A row runs only as far as its last weighted token, and only
weighted positions meet the LM head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictcli.algorithm.objective import Objective, k3, surrogate, was_clipped
from ictcli.algorithm.quantities import entropy
from ictcli.types import BoolArray, FloatArray, Rollouts, UpdateReport

from .model import head_only_at, text_config
from .optimizer import Optimizer

MAX_LOGITS = 1 << 27
"""Logits of a pass at most (512 MB in float32), whatever the token budget allows."""


@dataclass(frozen=True)
class MicroBatch:
    """Some rows, cut behind their last wanted token. S is the longest prompt + response."""

    ids: Tensor
    """(R, S), right-padded with 0."""
    head: Tensor
    """(R, S) bool: where a wanted token is predicted, one place before it."""
    rows: np.ndarray
    positions: np.ndarray
    """(N,) each: row and response position of the N wanted tokens, in the order of `head`."""
    targets: Tensor
    """(N,) the tokens themselves."""


def micro_batches(
    rollouts: Rollouts, wanted: BoolArray, budget: int, vocabulary: int, device: torch.device
) -> Iterator[MicroBatch]:
    """Pack the rows that have a wanted token (B, T), longest first, into passes of `budget` tokens
    (one row at least)."""
    T = wanted.shape[1]
    reach = np.where(wanted.any(axis=1), T - np.argmax(wanted[:, ::-1], axis=1), 0)
    prompt_lengths = np.repeat([len(p) for p in rollouts.prompts], rollouts.group)
    lengths = prompt_lengths + reach
    order = [row for row in np.argsort(-lengths, kind="stable") if reach[row]]
    heads = wanted.sum(axis=1)
    first = 0
    while first < len(order):
        last, longest, logits = first + 1, lengths[order[first]], heads[order[first]]
        while last < len(order) and (last + 1 - first) * longest <= budget:
            logits += heads[order[last]]
            if logits * vocabulary > MAX_LOGITS:
                break
            last += 1
        yield _pack(rollouts, wanted, order[first:last], int(longest), prompt_lengths, device)
        first = last


def _pack(
    rollouts: Rollouts,
    wanted: BoolArray,
    rows: list[int],
    S: int,
    prompt_lengths: np.ndarray,
    device: torch.device,
) -> MicroBatch:
    ids = np.zeros((len(rows), S), dtype=np.int64)
    head = np.zeros((len(rows), S), dtype=bool)
    for i, row in enumerate(rows):
        prompt, begin = rollouts.prompt_of(row), prompt_lengths[row]
        response = rollouts.tokens[row, : S - begin]
        ids[i, :begin] = prompt
        ids[i, begin : begin + len(response)] = response
        at = np.nonzero(wanted[row])[0]
        head[i, begin + at - 1] = True
    chosen = wanted[rows]
    local, positions = np.nonzero(chosen)
    global_rows = np.asarray(rows)[local]
    return MicroBatch(
        torch.from_numpy(ids).to(device),
        torch.from_numpy(head).to(device),
        global_rows,
        positions,
        torch.from_numpy(rollouts.tokens[global_rows, positions].astype(np.int64)).to(device),
    )


def head_logits(model: Any, batch: MicroBatch) -> Tensor:
    """(N, V) float32 logits at the wanted places."""
    with head_only_at(model, batch.head):
        return model(input_ids=batch.ids, use_cache=False).logits.float()


def token_logp(logits: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """(N,) log-probability of the targets under softmax(logits / temperature)."""
    scaled = logits if temperature == 1 else logits / temperature
    return scaled.gather(1, targets[:, None])[:, 0] - torch.logsumexp(scaled, dim=-1)


@torch.inference_mode()
def logprobs(
    model: Any, rollouts: Rollouts, temperature: float, budget: int, wanted: BoolArray
) -> FloatArray:
    """(B, T) float32 log-probabilities at the wanted tokens, 0 elsewhere."""
    found = np.zeros(rollouts.tokens.shape, dtype=np.float32)
    vocabulary = text_config(model).vocab_size
    for batch in micro_batches(rollouts, wanted, budget, vocabulary, model.device):
        logp = token_logp(head_logits(model, batch), batch.targets, temperature)
        found[batch.rows, batch.positions] = logp.cpu().numpy()
    return found


@torch.inference_mode()
def logits_at(model: Any, rollouts: Rollouts, where: BoolArray, budget: int) -> FloatArray:
    """(N, V) float32 logits at the True places of `where` (B, T), in row-major order."""
    order = np.full(where.shape, -1)
    order[where] = np.arange(int(where.sum()))
    vocabulary = text_config(model).vocab_size
    found = np.zeros((int(where.sum()), vocabulary), dtype=np.float32)
    for batch in micro_batches(rollouts, where, budget, vocabulary, model.device):
        found[order[batch.rows, batch.positions]] = head_logits(model, batch).cpu().numpy()
    return found


@dataclass
class _Sums:
    """Running figures of one update, over its weighted tokens."""

    loss: float = 0.0
    clipped: float = 0.0
    kl: float = 0.0
    count: int = 0
    gap: float = 0.0
    passed: int = 0


def backward(
    model: Any,
    reference: Any | None,
    rollouts: Rollouts,
    weights: FloatArray,
    advantage: FloatArray,
    objective: Objective,
    budget: int,
    old_logp: FloatArray | None,
    kl_old: FloatArray | None,
) -> tuple[_Sums, FloatArray]:
    """Add the gradient of the whole batch to the parameters' `.grad`; figures and log pi (B, T)."""
    device, vocabulary = model.device, text_config(model).vocab_size
    wanted = weights != 0
    if objective.skips_without_signal:
        signal = (advantage != 0)[:, None]
        wanted = wanted & (signal if kl_old is None else signal | (kl_old != 0))
    sums, seen = _Sums(), np.zeros(rollouts.tokens.shape, dtype=np.float32)

    def take(values: FloatArray, batch: MicroBatch) -> Tensor:
        picked = values[batch.rows, batch.positions]
        return torch.from_numpy(picked.astype(np.float32)).to(device)

    A_BT = np.broadcast_to(advantage[:, None], wanted.shape)
    for batch in micro_batches(rollouts, wanted, budget, vocabulary, device):
        logits = head_logits(model, batch)
        logp = token_logp(logits, batch.targets, objective.temperature)
        old = logp.detach() if old_logp is None else take(old_logp, batch)
        A, w = take(A_BT, batch), take(weights, batch)
        psi = surrogate(torch, logp, old, A, objective)
        if objective.kl > 0:
            with torch.inference_mode():
                reference_logits = head_logits(reference, batch)
                reference_logp = token_logp(reference_logits, batch.targets, objective.temperature)
                del reference_logits
            divergence = k3(torch, logp, reference_logp.clone())
            psi = psi - objective.kl * divergence
            sums.kl += float(divergence.detach().sum())
        if objective.entropy != 0:
            psi = psi + objective.entropy * entropy(torch, torch.softmax(logits, dim=-1))
        if kl_old is not None:
            psi = psi - take(kl_old, batch) * (logp - old).abs()
        loss = -(w * psi).sum()
        loss.backward()
        now = logp.detach()
        sums.loss += float(loss.detach())
        sums.clipped += float(was_clipped(torch, now, old, A, objective).sum())
        sums.gap = max(sums.gap, float((now - old).abs().max()))
        sums.count += len(now)
        sums.passed += batch.ids.numel()
        seen[batch.rows, batch.positions] = now.cpu().numpy()
    return sums, seen


def step(optimizer: Optimizer, lr: float, sums: _Sums, seen: FloatArray) -> UpdateReport:
    """Clip the accumulated gradient and step, unless there is none or it is not finite."""
    grad_norm = optimizer.clip()
    finite = bool(np.isfinite(grad_norm) and np.isfinite(sums.loss))
    stepped = finite and sums.count > 0
    if stepped:
        optimizer.step(lr)
    optimizer.drop_gradient()
    count = max(sums.count, 1)
    return UpdateReport(
        stepped=stepped,
        finite=finite,
        loss=sums.loss,
        grad_norm=grad_norm,
        clip_fraction=sums.clipped / count,
        kl=sums.kl / count,
        ratio_gap=sums.gap,
        logp=seen,
        tokens=sums.passed,
    )

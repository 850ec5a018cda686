"""The update written plainly: full logits of every row, autograd, AdamW, in float64.

No padding, no micro-batches, nothing skipped: Psi is evaluated at every token, of the advantage
with the weight's sign, and weighted by its size. It shares no line with ictcli's objective.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictcli.engine.update import Update
from ictcli.recipe.tables import OptimizerSettings
from ictcli.types import Rollouts

from .oracle import plain_model


@dataclass(frozen=True)
class DenseReport:
    loss: float
    grad_norm: float
    logp: np.ndarray
    """(B, T) at every token, 0 after ends."""
    k3: np.ndarray
    """(B, T) the estimate of KL(pi || reference); 0 without one."""


Formula = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Of log pi, log pi_old and the target of a term, (length,) each."""


class DenseTrainer:
    def __init__(
        self,
        folder: Path,
        settings: OptimizerSettings,
        terms: Mapping[Callable[..., Any], Formula] | None = None,
    ) -> None:
        self.terms = terms or {}
        self.reference = plain_model(folder)
        self.model = copy.deepcopy(self.reference)
        self.clip_norm = settings.clip_norm
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            betas=(settings.beta1, settings.beta2),
            eps=settings.eps,
            weight_decay=settings.weight_decay,
        )

    def update(self, update: Update, lr: float) -> DenseReport:
        rollouts, weights, objective = update.rollouts, update.weights, update.objective
        self.optimizer.zero_grad()
        loss = torch.zeros((), dtype=torch.float64)
        seen, k3 = np.zeros(weights.shape), np.zeros(weights.shape)
        for row, length in enumerate(rollouts.lengths):
            logits = response_logits(self.model, rollouts, row)
            tokens = torch.from_numpy(rollouts.tokens[row, :length].astype(np.int64))
            logp = chosen(logits / objective.temperature, tokens)
            given = update.old_logp
            old = logp.detach() if given is None else vector(given[row, :length])
            A = float(update.advantage[row]) * vector(np.sign(weights[row, :length]))
            ratio = (logp - old).exp()
            low, high = 1 - objective.eps_low, 1 + objective.eps_high
            psi = torch.minimum(ratio * A, ratio.clamp(low, high) * A)
            if objective.clip_on == "tv":
                moved = (logp.exp() - old.exp()).detach()
                inside = torch.where(
                    A > 0, moved <= objective.eps_high, moved >= -objective.eps_low
                )
                psi = torch.where(inside, ratio * A, psi)
            if objective.clip_on == "weight":
                psi = ratio.clamp(low, high).detach() * A * logp
            if objective.clip_on == "sequence":  # of equal weights in a row, so one A
                trained = vector(weights[row, :length]) != 0
                s = (logp - old)[trained].mean().exp() if trained.any() else ratio.sum() * 0 + 1
                psi = torch.minimum(s * A, s.clamp(low, high) * A)
            if objective.kl:
                with torch.no_grad():
                    raw = response_logits(self.reference, rollouts, row)
                d = chosen(raw / objective.temperature, tokens) - logp
                psi = psi - objective.kl * (d.exp() - d - 1)
                k3[row, :length] = (d.exp() - d - 1).detach().numpy()
            if objective.entropy:
                log_p = torch.log_softmax(logits / objective.temperature, dim=-1)
                psi = psi - objective.entropy * (log_p.exp() * log_p).sum(-1)
            for term in update.terms:
                value = self.terms[term.formula](logp, old, vector(term.target[row, :length]))
                psi = psi - vector(term.coefficient[row, :length]) * value
            loss = loss - (vector(weights[row, :length]).abs() * psi).sum()
            seen[row, :length] = logp.detach().numpy()
        loss.backward()
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = float(torch.sqrt(sum((g * g).sum() for g in grads)))  # pyright: ignore
        for grad in grads:
            grad.mul_(min(1.0, self.clip_norm / norm) if norm else 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        return DenseReport(float(loss.detach()), norm, seen, k3)

    def weights(self) -> dict[str, np.ndarray]:
        """By the names of the Hugging Face layout."""
        return {
            name: tensor.detach().numpy().copy() for name, tensor in self.model.state_dict().items()
        }


def response_logits(model: torch.nn.Module, rollouts: Rollouts, row: int) -> Tensor:
    """(length, V): a plain forward pass of prompt + response."""
    prompt, length = rollouts.prompt_of(row), int(rollouts.lengths[row])
    ids = (*prompt, *rollouts.tokens[row, :length].tolist())
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, len(prompt) - 1 : -1]


def chosen(logits: Tensor, tokens: Tensor) -> Tensor:
    return torch.log_softmax(logits, dim=-1)[torch.arange(len(tokens)), tokens]


def vector(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float64))

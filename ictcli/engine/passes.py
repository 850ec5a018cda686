"""What runs pass by pass: log-probabilities, logits, and the gradient of an update.

A backend gives the device code of one pass; the loops here scatter what it returns.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ictcli.algorithm.objective import Objective, was_clipped
from ictcli.engine.budget import Budget
from ictcli.engine.packing import MicroBatch
from ictcli.types import BoolArray, FloatArray, Rollouts, UpdateReport


def logprobs(
    rollouts: Rollouts, budget: Budget, vocabulary: int, logp: Callable[[MicroBatch], FloatArray]
) -> FloatArray:
    """(B, T) float32 of `logp`, (N,) a pass, at the tokens of the rollouts; 0 behind ends."""

    def work() -> FloatArray:
        values = np.zeros(rollouts.tokens.shape, dtype=np.float32)
        for batch in budget.micro_batches(rollouts, rollouts.valid, vocabulary):
            values[batch.rows, batch.positions] = logp(batch)
        return values

    return budget.passing(work)


def logits_at(
    rollouts: Rollouts,
    where: BoolArray,
    budget: Budget,
    vocabulary: int,
    logits: Callable[[MicroBatch], FloatArray],
) -> FloatArray:
    """(N, V) float32 of `logits` at the True places of `where` (B, T), in row-major order."""
    order = np.cumsum(where).reshape(where.shape) - 1

    def work() -> FloatArray:
        values = np.zeros((int(where.sum()), vocabulary), dtype=np.float32)
        for batch in budget.micro_batches(rollouts, where, vocabulary):
            values[order[batch.rows, batch.positions]] = logits(batch)
        return values

    return budget.passing(work)


@dataclass(frozen=True)
class Update:
    """The batch of one optimiser update: the arguments of `Engine.update`."""

    rollouts: Rollouts
    weights: FloatArray
    """(B, T)."""
    advantage: FloatArray
    """(B,)."""
    objective: Objective
    old_logp: FloatArray | None = None
    kl_old: FloatArray | None = None

    @property
    def trained(self) -> BoolArray:
        """(B, T): the weighted tokens that can add to the gradient at all."""
        weighted = np.asarray(self.weights != 0)
        if not self.objective.skips_without_signal:
            return weighted
        signal = (self.advantage != 0)[:, None]
        return weighted & (signal if self.kl_old is None else signal | (self.kl_old != 0))

    def terms(self, batch: MicroBatch) -> dict[str, FloatArray]:
        """(N,) float32 of what the loss takes of each token of a pass, by name."""
        arrays = {
            "advantage": np.broadcast_to(self.advantage[:, None], self.weights.shape),
            "weights": self.weights,
            "old_logp": self.old_logp,
            "kl_old": self.kl_old,
        }
        return {name: batch.take(values) for name, values in arrays.items() if values is not None}


@dataclass
class UpdateStats:
    """Figures of one update, summed over its passes."""

    logp: FloatArray
    """(B, T) float32 log pi, where evaluated."""
    loss: float = 0.0
    clipped: float = 0.0
    """Tokens whose ratio was clipped away."""
    kl: float = 0.0
    count: float = 0.0
    """Tokens that were evaluated."""
    gap: float = 0.0
    """Largest |log pi - log pi_old|."""
    passed: float = 0.0
    """Prompt and response tokens that went through the model."""

    def report(self, grad_norm: float) -> UpdateReport:
        """What the optimiser is to do, and did: it steps unless nothing was evaluated, or the loss
        or the gradient of this norm is not finite."""
        finite = bool(np.isfinite([grad_norm, self.loss]).all())
        count = max(self.count, 1)
        return UpdateReport(
            stepped=finite and self.count > 0,
            finite=finite,
            loss=self.loss,
            grad_norm=grad_norm,
            clip_fraction=self.clipped / count,
            kl=self.kl / count,
            ratio_gap=self.gap,
            logp=self.logp,
            tokens=int(self.passed),
        )


OnePass = Callable[[MicroBatch, dict[str, FloatArray]], tuple[float, FloatArray, float]]
"""Adds the gradient of a pass with these terms; gives its loss, log pi (N,) and summed KL."""


def accumulate(
    update: Update,
    budget: Budget,
    vocabulary: int,
    one_pass: OnePass,
    reference_logp: Callable[[MicroBatch], FloatArray],
) -> UpdateStats:
    """Run `one_pass` over the whole batch, within a call of `Budget.passing`, which begins anew
    where memory runs out. `reference_logp` gives log pi_ref (N,), for kl > 0."""
    rollouts, objective = update.rollouts, update.objective
    stats = UpdateStats(np.zeros(rollouts.tokens.shape, dtype=np.float32))
    for batch in budget.micro_batches(rollouts, update.trained, vocabulary):
        terms = update.terms(batch)
        if objective.kl > 0:  # its logits are gone before the policy's are made
            terms["reference"] = reference_logp(batch)
        loss, logp, kl = one_pass(batch, terms)
        old, advantage = terms.get("old_logp", logp), terms["advantage"]
        stats.logp[batch.rows, batch.positions] = logp
        stats.loss += loss
        stats.kl += kl
        stats.clipped += float(was_clipped(np, logp, old, advantage, objective).sum())
        stats.gap = max(stats.gap, float(np.abs(logp - old).max()))
        stats.count += len(logp)
        stats.passed += batch.ids.size
    return stats

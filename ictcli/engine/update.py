"""The batch of one optimiser update, and its figures, summed over passes."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ictcli.algorithm.objective import Objective, Term, TokenTerms, was_clipped
from ictcli.engine.packing import MicroBatch
from ictcli.engine.score import measure
from ictcli.types import LOGP, BoolArray, FloatArray, Rollouts, UpdateReport


@dataclass(frozen=True)
class Update:
    """The batch of one optimiser update: what is trained of it, and by which loss."""

    rollouts: Rollouts
    weights: FloatArray
    """(B, T), normalised over this whole batch, and signed: see `token_advantage`."""
    advantage: FloatArray
    """(B,)."""
    objective: Objective
    old_logp: FloatArray | None = None
    """(B, T) log pi_old; without it the ratio is exactly 1, and only its gradient counts."""
    terms: tuple[Term, ...] = ()
    """Those that the method asks for."""
    sampler_logp: FloatArray | None = None
    """(B, T) log pi of the sampler, if that is another policy than the model."""

    @property
    def kept(self) -> BoolArray:
        """(B, T) the tokens with a weight."""
        return np.asarray(self.weights != 0)

    @property
    def trained(self) -> BoolArray:
        """(B, T): the weighted tokens that can add to the gradient at all."""
        if not self.objective.skips_without_signal:
            return self.kept
        signal = (self.advantage != 0)[:, None]
        for term in self.terms:
            signal = signal | (term.coefficient != 0)
        return self.kept & signal

    @property
    def token_advantage(self) -> FloatArray:
        """(B, T): the advantage, turned round where the weight is negative.

        Clipping looks at the sign of what a token is trained by, w * A. So a negative weight w is
        |w| * Psi(-A), which is w * Psi(A) only where nothing is clipped or penalised.
        """
        return np.where(self.weights < 0, -1.0, 1.0) * self.advantage[:, None]

    @property
    def compares_sequences(self) -> bool:
        """Return whether the ratio is that of whole responses, and not yet 1."""
        return self.objective.clip_on == "sequence" and self.old_logp is not None

    def tokenwise(self, batch: MicroBatch, reference: FloatArray | None = None) -> TokenTerms:
        """Return what the loss takes of each token of a pass, (N,) float32; `reference` (B, T)."""
        whole = TokenTerms(
            np.abs(self.weights),
            self.token_advantage,
            self.old_logp,
            reference,
            self.sampler_logp,
            others=self.terms,
        )
        return replace(whole.map(batch.take), targets=batch.targets)


def add_pass(
    report: UpdateReport,
    batch: MicroBatch,
    terms: TokenTerms,
    objective: Objective,
    figures: tuple[float, FloatArray, float],
) -> None:
    """Add a pass's loss, log pi (N,) and summed KL to the figures of its update."""
    loss, logp, kl = figures
    old = logp if terms.old_logp is None else terms.old_logp
    whole = terms.sequence is not None
    compared = (terms.sequence, np.zeros_like(old)) if whole else (logp, old)
    report.logp[batch.rows, batch.positions] = logp
    report.loss += loss
    report.summed_kl += kl
    report.clipped += float(was_clipped(np, *compared, terms.advantage, objective).sum())
    gap = np.abs(logp - (old if terms.sampler_logp is None else terms.sampler_logp)).max()
    report.ratio_gap = max(report.ratio_gap, float(gap))
    report.evaluated += len(logp)
    report.tokens += batch.tokens


def pass_over(engine: Any, update: Update) -> UpdateReport:
    """Sum the gradient of this rank's rows of an update; its figures. The log-probabilities that
    the loss compares with are known before its first pass."""
    objective, own = update.objective, engine.share_of(update)

    def logp(*, reference: bool = False) -> FloatArray:
        with engine.policy(reference=reference):
            at = objective.temperature
            return measure(engine, own.rollouts, own.trained, (LOGP,), at)[..., 0]

    engine.optimizer.drop_gradient()  # of a pass that was broken off
    report = UpdateReport(np.zeros(update.rollouts.tokens.shape, dtype=np.float32))
    reference = logp(reference=True) if objective.kl > 0 else None
    now = logp() if update.compares_sequences else None
    for batch, is_own in engine.rounds(update, own):
        if not is_own:  # it joins in another's pass, without a weight
            terms = update.tokenwise(batch)
            terms = replace(terms, weights=np.zeros_like(terms.weights))
            engine.passes.backward(batch, terms, update)
            continue
        terms = update.tokenwise(batch, reference)
        if now is not None:
            moved = batch.take(now) - terms.old_logp
            terms = replace(terms, sequence=batch.row_means(moved))
        add_pass(report, batch, terms, objective, engine.passes.backward(batch, terms, update))
    return report

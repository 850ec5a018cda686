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
    """The batch of one optimiser update: rollouts, token weights, advantages and the loss."""

    rollouts: Rollouts
    weights: FloatArray
    """(B, T), normalised over this whole batch, and signed: see `token_advantage`."""
    advantage: FloatArray
    """(B,): the advantage A of each row."""
    objective: Objective
    old_logp: FloatArray | None = None
    """(B, T) log pi_old; None = the ratio is exactly 1, and only its gradient matters."""
    terms: tuple[Term, ...] = ()
    """Additional terms of the loss, from the method."""
    sampler_logp: FloatArray | None = None
    """(B, T) log pi of the sampler, if that is another policy than the model."""

    @property
    def kept(self) -> BoolArray:
        """(B, T): True for tokens with a weight other than 0."""
        return np.asarray(self.weights != 0)

    @property
    def trained(self) -> BoolArray:
        """(B, T): True for kept tokens that can have a gradient other than 0."""
        if not self.objective.skips_without_signal:
            return self.kept
        signal = (self.advantage != 0)[:, None]
        for term in self.terms:
            signal = signal | (term.coefficient != 0)
        return self.kept & signal

    @property
    def token_advantage(self) -> FloatArray:
        """(B, T): the advantage A, negated for tokens with a negative weight w.

        Clipping depends on the sign of w * A. So such a token adds -|w| * Psi(-A) to the loss
        (`objective`), which equals -w * Psi(A) only if nothing is clipped or penalised."""
        return np.where(self.weights < 0, -1.0, 1.0) * self.advantage[:, None]

    @property
    def compares_sequences(self) -> bool:
        """Whether the ratio is computed over whole responses, and old log-probabilities exist."""
        return self.objective.clip_on == "sequence" and self.old_logp is not None

    def tokenwise(self, batch: MicroBatch, reference: FloatArray | None = None) -> TokenTerms:
        """Return the loss's inputs for the wanted tokens of a pass, (N,) float32 each. `reference`
        (B, T) is log p under the reference policy."""
        inputs = TokenTerms(
            np.abs(self.weights),
            self.token_advantage,
            self.old_logp,
            reference,
            self.sampler_logp,
            others=self.terms,
        )
        return replace(inputs.map(batch.take), targets=batch.targets)


def add_pass(
    report: UpdateReport,
    batch: MicroBatch,
    terms: TokenTerms,
    objective: Objective,
    figures: tuple[float, FloatArray, float],
) -> None:
    """Add the `figures` of a pass to the figures of its update: loss, log pi (N,) and summed KL."""
    loss, logp, kl = figures
    old = logp if terms.old_logp is None else terms.old_logp
    by_sequence = terms.sequence is not None
    compared = (terms.sequence, np.zeros_like(old)) if by_sequence else (logp, old)
    report.logp[batch.rows, batch.positions] = logp
    report.loss += loss
    report.summed_kl += kl
    report.clipped += float(was_clipped(np, *compared, terms.advantage, objective).sum())
    gap = np.abs(logp - (old if terms.sampler_logp is None else terms.sampler_logp)).max()
    report.ratio_gap = max(report.ratio_gap, float(gap))
    report.evaluated += len(logp)
    report.tokens += batch.tokens


def pass_over(engine: Any, update: Update) -> UpdateReport:
    """Sum the gradient over this rank's rows of an update, and return their figures. Reference and
    sequence log-probabilities are computed before the first pass."""
    objective, share = update.objective, engine.share_of(update)

    def logp(*, reference: bool = False) -> FloatArray:
        with engine.policy(reference=reference):
            at = objective.temperature
            return measure(engine, share.rollouts, share.trained, (LOGP,), at)[..., 0]

    engine.optimizer.drop_gradient()  # of an attempt that ran out of memory
    report = UpdateReport(np.zeros(update.rollouts.tokens.shape, dtype=np.float32))
    reference = logp(reference=True) if objective.kl > 0 else None
    current = logp() if update.compares_sequences else None
    for batch, is_local in engine.rounds(update, share):
        if not is_local:  # another rank's pass, in which this rank takes part with weights of 0
            terms = update.tokenwise(batch)
            terms = replace(terms, weights=np.zeros_like(terms.weights))
            engine.passes.backward(batch, terms, update)
            continue
        terms = update.tokenwise(batch, reference)
        if current is not None:
            log_ratio = batch.take(current) - terms.old_logp
            terms = replace(terms, sequence=batch.row_means(log_ratio))
        add_pass(report, batch, terms, objective, engine.passes.backward(batch, terms, update))
    return report

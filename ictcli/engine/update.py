"""The batch of one optimiser update, and its figures, summed over passes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ictcli.algorithm.objective import (
    SAMPLER,
    SEQUENCE,
    TARGET,
    TERMS,
    Objective,
    Term,
    was_clipped,
)
from ictcli.engine.packing import MicroBatch
from ictcli.engine.score import measure
from ictcli.errors import UserError, nearest
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
    terms: Mapping[str, Term] = field(default_factory=dict[str, Term])
    """Those of `ictcli.algorithm.objective.TERMS` that the method asks for."""
    sampler_logp: FloatArray | None = None
    """(B, T) log pi of what sampled, where that is another policy than the model."""

    def __post_init__(self) -> None:
        for name in self.terms.keys() - TERMS.keys():
            raise UserError(
                f"The loss has no term {name!r}{nearest(name, sorted(TERMS))}.",
                f"a plugin declares one as ictcli.algorithm.objective.TERMS[{name!r}]",
            )

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
        for term in self.terms.values():
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
        """Whether the ratio is that of whole responses, and not yet 1."""
        return self.objective.clip_on == "sequence" and self.old_logp is not None

    def tokenwise(self, batch: MicroBatch) -> dict[str, FloatArray]:
        """(N,) float32 of what the loss takes of each token of a pass, by name."""
        arrays = {
            "advantage": self.token_advantage,
            "weights": np.abs(self.weights),
            "old_logp": self.old_logp,
            SAMPLER: self.sampler_logp,
        }
        for name, term in self.terms.items():
            arrays |= {name: term.coefficient, name + TARGET: term.target}
        return {name: batch.take(values) for name, values in arrays.items() if values is not None}


def add_pass(
    report: UpdateReport,
    batch: MicroBatch,
    terms: Mapping[str, FloatArray],
    objective: Objective,
    figures: tuple[float, FloatArray, float],
) -> None:
    """Add a pass's loss, log pi (N,) and summed KL to the figures of its update."""
    loss, logp, kl = figures
    old = terms.get("old_logp", logp)
    compared = (terms[SEQUENCE], np.zeros_like(old)) if SEQUENCE in terms else (logp, old)
    report.logp[batch.rows, batch.positions] = logp
    report.loss += loss
    report.summed_kl += kl
    report.clipped += float(was_clipped(np, *compared, terms["advantage"], objective).sum())
    gap = float(np.abs(logp - terms.get(SAMPLER, old)).max())
    report.ratio_gap = max(report.ratio_gap, gap)
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
        terms = update.tokenwise(batch)
        if not is_own:  # it joins in another's pass, without a weight
            terms["weights"] = np.zeros_like(terms["weights"])
            engine.passes.backward(batch, terms, update)
            continue
        if reference is not None:
            terms["reference"] = batch.take(reference)
        if now is not None:
            terms[SEQUENCE] = batch.row_means(batch.take(now) - terms["old_logp"])
        add_pass(report, batch, terms, objective, engine.passes.backward(batch, terms, update))
    return report

"""The objective of one token, written once over an array namespace (`quantities` says which).

L = -sum_{i,t} w_{i,t} * Psi_{i,t}, with the weights of `ictcli.algorithm.weights`.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Objective:
    """Coefficients of Psi. `temperature` is the sampler's: the ratio compares those policies."""

    eps_low: float = 0.2
    eps_high: float = 0.2
    kl: float = 0.0
    """beta_kl, of the k3 estimate of KL(pi || reference); 0 needs no reference."""
    entropy: float = 0.0
    """c, of the entropy bonus c * H1(pi); H1 at temperature 1, like every statistic."""
    temperature: float = 1.0

    @property
    def skips_without_signal(self) -> bool:
        """True where a row without advantage adds nothing, and need not be run at all."""
        return self.kl == 0 and self.entropy == 0


def surrogate(xp: Any, logp: Any, old_logp: Any, advantage: Any, objective: Objective) -> Any:
    """min(rho A, clip(rho, 1 - eps_low, 1 + eps_high) A), rho = pi / pi_old of the token."""
    ratio = xp.exp(logp - old_logp)
    clipped = xp.clip(ratio, 1.0 - objective.eps_low, 1.0 + objective.eps_high)
    # not xp.minimum: on a tie (rho = 1 with eps = 0) each library differentiates another branch
    gone = was_clipped(xp, logp, old_logp, advantage, objective)
    return xp.where(gone, clipped * advantage, ratio * advantage)


def was_clipped(xp: Any, logp: Any, old_logp: Any, advantage: Any, objective: Objective) -> Any:
    """True where the clip took the token's gradient away."""
    ratio = xp.exp(logp - old_logp)
    return ((advantage > 0) & (ratio > 1.0 + objective.eps_high)) | (
        (advantage < 0) & (ratio < 1.0 - objective.eps_low)
    )


def k3(xp: Any, logp: Any, reference_logp: Any) -> Any:
    """exp(d) - d - 1 with d = log pi_ref - log pi: non-negative, unbiased for KL(pi || ref)."""
    d = reference_logp - logp
    return xp.expm1(d) - d  # exp(d) - 1 loses a small d to rounding, and falls below 0

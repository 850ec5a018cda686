"""The loss of an update, written once for any array namespace (see `quantities`).

L = -sum_{i,t} w_{i,t} * Psi_{i,t}, with the weights of `ictcli.algorithm.weights`. Psi is the
clipped surrogate, minus the KL to the reference, plus the entropy bonus, minus the terms that a
method adds. Here w >= 0: for a negative weight the caller passes |w| and changes the sign of the
advantage (`ictcli.engine.update`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from ictcli.algorithm import quantities
from ictcli.algorithm.quantities import pick

ClipOn = Literal["ratio", "tv", "sequence", "weight"]


@dataclass(frozen=True)
class Clip:
    """How a method bounds the ratio pi / pi_old or its use; fields as in `Objective`."""

    on: ClipOn
    low: float
    high: float


LIKELIHOOD = Clip("weight", 0.0, 0.0)
"""The clip for a loss of -A log pi per token: the ratio is a weight of log pi, clipped to 1."""


@dataclass(frozen=True)
class Objective:
    """Coefficients of the loss. `temperature` is the sampler's: ratio, KL and entropy are those of
    the policy pi = softmax(logits / temperature)."""

    eps_low: float = 0.2
    eps_high: float = 0.2
    kl: float = 0.0
    """beta_kl, the coefficient of the k3 estimate of KL(pi || reference); 0 needs no reference."""
    entropy: float = 0.0
    """c, the coefficient of the entropy bonus c * H(pi)."""
    temperature: float = 1.0
    clip_on: ClipOn = "ratio"
    """What the clip bounds. ratio: the token's ratio. tv: pi - pi_old, the total variation of the
    token against all others (DPPO, arXiv 2602.04879). sequence: the ratio of the response, used for
    all its tokens (GSPO, arXiv 2507.18071). weight: the ratio as a weight of log pi, which always
    keeps its gradient (CISPO, arXiv 2506.13585)."""

    @property
    def skips_without_signal(self) -> bool:
        """Whether a row with advantage 0 adds nothing to the loss, so that it need not be run."""
        return self.kl == 0 and self.entropy == 0


@dataclass(frozen=True)
class Term:
    """A term that a method adds to the loss of each token, and its coefficient at the token."""

    formula: Callable[[Any, Any, Any, Any], Any]
    """Function of the array namespace, and of log pi, log pi_old and the target, (N,) each."""
    coefficient: Any
    """(B, T) factor of the formula; 0 is off."""
    target: Any = None
    """(B, T) finite log-probabilities, for a formula that compares log pi with them."""


NO_ARRAYS = ("formula", "others")


@dataclass(frozen=True)
class TokenTerms:
    """The inputs of the loss for each token: arrays of one shape, (B, T) or (N,), or None."""

    weights: Any
    """Weights w >= 0 of the tokens in the loss."""
    advantage: Any
    old_logp: Any = None
    """log pi_old; None: pi_old is pi, so that the ratio is 1 and has a gradient."""
    reference_logp: Any = None
    """log pi_ref; None: without the KL."""
    sampler_logp: Any = None
    """Log-probability under the policy that sampled the tokens; None: that policy is pi_old."""
    sequence: Any = None
    """The mean of log pi - log pi_old over the trained tokens of the token's response, whose exp is
    the ratio of GSPO (arXiv 2507.18071, Eq. 7)."""
    targets: Any = None
    """The tokens' ids."""
    others: tuple[Term, ...] = ()
    """Terms that the method adds to the loss of each token."""

    def map(self, change: Callable[[Any], Any]) -> "TokenTerms":
        """Return the terms with `change` applied to each array, always in the same order."""

        def changed(terms: Any) -> Any:
            names = [name for name in terms.__dataclass_fields__ if name not in NO_ARRAYS]
            arrays = {name: getattr(terms, name) for name in names}
            return replace(terms, **{k: change(x) for k, x in arrays.items() if x is not None})

        return replace(changed(self), others=tuple(map(changed, self.others)))


def surrogate(xp: Any, logp: Any, old_logp: Any, advantage: Any, objective: Objective) -> Any:
    """Return min(rho A, clip(rho, 1 - eps_low, 1 + eps_high) A), rho = pi / pi_old of the token.

    If `clip_on` is "tv", the clipped value is used only where pi - pi_old leaves the range. If
    it is "weight", return clip(rho) A log pi, in which clip(rho) has no gradient."""
    ratio = xp.exp(logp - old_logp)
    clipped = xp.clip(ratio, 1.0 - objective.eps_low, 1.0 + objective.eps_high)
    if objective.clip_on == "weight":
        return xp.stop_gradient(clipped) * advantage * logp
    # not xp.minimum: on a tie (rho = 1, eps = 0) libraries differentiate different branches
    clips = was_clipped(xp, logp, old_logp, advantage, objective)
    return xp.where(clips, clipped * advantage, ratio * advantage)


def was_clipped(xp: Any, logp: Any, old_logp: Any, advantage: Any, objective: Objective) -> Any:
    """Return a mask of tokens whose gradient the clip removes or whose weight the clip bounds."""
    low, high = objective.eps_low, objective.eps_high
    if objective.clip_on == "tv":
        moved = xp.exp(logp) - xp.exp(old_logp)
        above, below = moved > high, moved < -low
    else:
        ratio = xp.exp(logp - old_logp)
        above, below = ratio > 1.0 + high, ratio < 1.0 - low
    if objective.clip_on == "weight":
        return above | below
    return ((advantage > 0) & above) | ((advantage < 0) & below)


def k3(xp: Any, logp: Any, reference_logp: Any) -> Any:
    """Return exp(d) - d - 1, d = log pi_ref - log pi: >= 0, unbiased for KL(pi || ref)."""
    d = reference_logp - logp
    return xp.expm1(d) - d  # by exp(d) - 1, rounding makes it negative for small d


def distance_from_old(xp: Any, logp: Any, old_logp: Any, target: None) -> Any:
    """Return |log pi - log pi_old| (KL-Cov, arXiv 2505.22617)."""
    return xp.abs(logp - old_logp)


SAMPLER_CAP = 2.0
"""Cap of pi_old / pi_sampler, the weight of a token that a policy other than pi_old sampled
(truncated importance sampling, Ionides 2008)."""


def token_logp(xp: Any, logits: Any, targets: Any, temperature: float) -> Any:
    """Return log-probabilities (N,) of targets (N,) under softmax(logits / temperature), (N, V)."""
    scaled = tempered(logits, temperature)
    return pick(xp, scaled, targets) - xp.logsumexp(scaled, axis=-1)


def tempered(logits: Any, temperature: float) -> Any:
    """Return logits divided by the temperature."""
    return logits if temperature == 1 else logits / temperature


def policy_loss(
    xp: Any, logits: Any, terms: TokenTerms, objective: Objective
) -> tuple[Any, Any, Any]:
    """Return the loss summed over N tokens, their log pi (N,), and their k3 estimates of KL (N,).

    `logits` (N, V) float32; `terms` (N,)."""
    scaled = tempered(logits, objective.temperature)
    logp = token_logp(xp, scaled, terms.targets, 1)
    old = xp.stop_gradient(logp) if terms.old_logp is None else terms.old_logp
    now, before = logp, old
    if terms.sequence is not None:  # the response's value with the token's gradient (Eq. 14)
        now = terms.sequence + (logp - xp.stop_gradient(logp))
        before = xp.zeros_like(logp)
    psi = surrogate(xp, now, before, terms.advantage, objective)
    if terms.sampler_logp is not None:
        psi = psi * xp.clip(xp.exp(old - terms.sampler_logp), 0.0, SAMPLER_CAP)
    divergence = xp.zeros_like(logp)
    if terms.reference_logp is not None:
        divergence = k3(xp, logp, terms.reference_logp)
        psi = psi - objective.kl * divergence
    if objective.entropy != 0:
        psi = psi + objective.entropy * quantities.entropy(xp, xp.softmax(scaled, axis=-1))
    for term in terms.others:
        psi = psi - term.coefficient * term.formula(xp, logp, old, term.target)
    return -(terms.weights * psi).sum(), logp, divergence

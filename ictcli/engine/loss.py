"""The loss of one pass, written once over an array namespace (mlx.core, or a backend's own
module that has its names)."""

from collections.abc import Mapping
from typing import Any

from ictcli.algorithm.objective import Objective, k3, surrogate
from ictcli.algorithm.quantities import entropy


def token_logp(xp: Any, logits: Any, targets: Any, temperature: float) -> Any:
    """(N,) log-probability of the targets (N,) under softmax(logits / temperature), (N, V)."""
    scaled = logits if temperature == 1 else logits / temperature
    return pick(xp, scaled, targets) - xp.logsumexp(scaled, axis=-1)


def policy_loss(
    xp: Any, logits: Any, targets: Any, terms: Mapping[str, Any], objective: Objective
) -> tuple[Any, Any, Any]:
    """-sum w * Psi of N tokens, their log pi (N,), and the k3 estimates of KL (N,).

    `logits` (N, V) float32; `terms` as `ictcli.engine.passes.Update.terms` names them, (N,) each.
    """
    logp = token_logp(xp, logits, targets, objective.temperature)
    old = terms["old_logp"] if "old_logp" in terms else xp.stop_gradient(logp)
    psi = surrogate(xp, logp, old, terms["advantage"], objective)
    divergence = xp.zeros_like(logp)
    if "reference" in terms:
        divergence = k3(xp, logp, terms["reference"])
        psi = psi - objective.kl * divergence
    if objective.entropy != 0:
        psi = psi + objective.entropy * entropy(xp, xp.softmax(logits, axis=-1))
    if "kl_old" in terms:
        psi = psi - terms["kl_old"] * xp.abs(logp - old)
    return -(terms["weights"] * psi).sum(), logp, divergence


def pick(xp: Any, values: Any, index: Any) -> Any:
    """(N,) values[n, index[n]] of (N, V)."""
    return xp.take_along_axis(values, index[:, None], -1)[:, 0]

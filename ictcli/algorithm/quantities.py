"""The quantities of ICT at one position, written once over an array namespace.

`xp` is numpy, torch or mlx.core: each has log, log1p, sum, clip, where, abs, finfo and cumsum. The
engines run these lines on the device in float32; NumPy in float64 is their oracle, and scipy is the
oracle's. Distributions lie along the last axis; every result drops it. Natural logarithms.
"""

from collections.abc import Callable
from typing import Any

from ictcli.types import MIN_P

FLOOR = 1e-37
"""About where the normal numbers of float32 end."""


def entropy(xp: Any, p: Any) -> Any:
    """Shannon entropy H1 = -sum p log p of probabilities p (..., V), in nats."""
    return -xp.sum(p * xp.log(p + FLOOR), axis=-1)


def purity(xp: Any, p: Any) -> Any:
    """Strategy purity beta = sum p^2 (collision probability); H2 = -log beta <= H1."""
    return xp.sum(p * p, axis=-1)


def kl(xp: Any, p: Any, q: Any) -> Any:
    """KL(p || q) in nats. In log p and log q a probability counts as FLOOR at least: a q that
    underflowed to 0 in float32 is improbable, not absent.
    """
    log_ratio = xp.log(xp.where(p > FLOOR, p, FLOOR) / xp.where(q > FLOOR, q, FLOOR))
    return xp.sum(p * log_ratio, axis=-1)


def js(xp: Any, p: Any, q: Any) -> Any:
    """Jensen-Shannon divergence KL(p||m)/2 + KL(q||m)/2, m = (p+q)/2, in [0, log 2].

    Written with d = (p-q) / (p+q), since p/m = 1+d and q/m = 1-d: then rounding adds about
    eps * sqrt(JS). Through log(p/m), or H(m) - H(p)/2 - H(q)/2, it would add eps, and give
    negative values. |d| stops an eps short of 1, where the logarithm of a probability of 0, which
    counts for nothing, would be infinite.
    """
    edge = 1.0 - xp.finfo(p.dtype).eps
    d = xp.clip((p - q) / (p + q + FLOOR), -edge, edge)
    return 0.5 * xp.sum(p * xp.log1p(d) + q * xp.log1p(-d), axis=-1)


def wasserstein(xp: Any, p: Any, q: Any) -> Any:
    """Wasserstein-1 distance over token ids: sum |CDF_p - CDF_q|, in ids.

    Token ids carry no meaning as a metric; it is here because the ICT paper (table 3) tries it.
    """
    return xp.sum(xp.abs(xp.cumsum(p - q, axis=-1)), axis=-1)


def min_p(xp: Any, p: Any, share: float) -> Any:
    """p (..., V) over the tokens of at least `share` times the highest probability, renormalised; 0
    at the others (min-p, arXiv 2407.01082)."""
    likely = xp.where(p >= share * xp.max(p, axis=-1, keepdims=True), p, 0.0)
    return likely / xp.sum(likely, axis=-1, keepdims=True)


def of_token(xp: Any, name: str, p: Any) -> Any:
    """(..., V) distribution whose probability of the sampled token is the statistic: `prob` is p's
    own, `min_p:S` that of `min_p`."""
    return p if name == "prob" else min_p(xp, p, float(name.removeprefix(MIN_P)))


ROW_QUANTITY: dict[str, Callable[[Any, Any], Any]] = {"entropy": entropy, "purity": purity}
"""Each is of a row's distribution alone, by the name in `TokenStats`."""

GROUP_QUANTITY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "uniqueness": js,
    "kl_from_mean": kl,
    "kl_to_mean": lambda xp, p, q: kl(xp, q, p),
    "wasserstein": wasserstein,
}
"""Each compares a row's distribution p with its group's mean q, by the name in `TokenStats`."""

"""The quantities of ICT at one position, written once over an array namespace.

`xp` is numpy, torch or mlx.core: each has exp, log, sum, where, abs and cumsum with an `axis`. The
engines run these lines on the device in float32; NumPy in float64 is their oracle, and scipy is the
oracle's. Distributions lie along the last axis; every result drops it. Natural logarithms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def entropy(xp: Any, p: Any) -> Any:
    """Shannon entropy H1 = -sum p log p of probabilities p (..., V), in nats."""
    return -xp.sum(p * xp.log(xp.where(p > 0, p, 1.0)), axis=-1)


def purity(xp: Any, p: Any) -> Any:
    """Strategy purity beta = sum p^2 (collision probability); H2 = -log beta <= H1."""
    return xp.sum(p * p, axis=-1)


def kl(xp: Any, p: Any, q: Any) -> Any:
    """KL(p || q) in nats; where p > 0 it needs q > 0."""
    both = (p > 0) & (q > 0)
    return xp.sum(p * xp.log(xp.where(both, p, 1.0) / xp.where(both, q, 1.0)), axis=-1)


def js(xp: Any, p: Any, q: Any) -> Any:
    """Jensen-Shannon divergence KL(p||m)/2 + KL(q||m)/2, m = (p+q)/2, in [0, log 2].

    Elements where p = q add exactly 0, so nearly equal distributions lose no digits to
    cancellation as H(m) - H(p)/2 - H(q)/2 would.
    """
    both = p + q
    norm = xp.where(both > 0, both, 1.0)
    ratio_p = xp.where(p > 0, 2.0 * p / norm, 1.0)
    ratio_q = xp.where(q > 0, 2.0 * q / norm, 1.0)
    return 0.5 * xp.sum(p * xp.log(ratio_p) + q * xp.log(ratio_q), axis=-1)


def wasserstein(xp: Any, p: Any, q: Any) -> Any:
    """Wasserstein-1 distance over token ids: sum |CDF_p - CDF_q|, in ids.

    Token ids carry no meaning as a metric; it is here because the ICT paper (table 3) tries it.
    """
    return xp.sum(xp.abs(xp.cumsum(p - q, axis=-1)), axis=-1)


def kl_to(xp: Any, p: Any, q: Any) -> Any:
    """KL(q || p): `kl` the other way round."""
    return kl(xp, q, p)


GROUP_QUANTITY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "uniqueness": js,
    "kl_from_mean": kl,
    "kl_to_mean": kl_to,
    "wasserstein": wasserstein,
}
"""Each compares a row's distribution p with its group's mean q, by the name in `TokenStats`."""

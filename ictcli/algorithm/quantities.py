"""The quantities of ICT at one position, written once over an array namespace, and the statistics
of tokens that are made of them.

`xp` is numpy, torch or mlx.core: each has log, log1p, sum, clip, where, abs, finfo and cumsum. The
engines run these lines on the device in float32; NumPy in float64 is their oracle, and scipy is the
oracle's. Distributions lie along the last axis; every result drops it. Natural logarithms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ictcli.errors import unknown

FLOOR = 1e-37
"""About where the normal numbers of float32 end."""


def entropy(xp: Any, p: Any) -> Any:
    """Return Shannon's entropy H1 = -sum p log p of probabilities p (..., V), in nats."""
    return -xp.sum(p * xp.log(p + FLOOR), axis=-1)


def purity(xp: Any, p: Any) -> Any:
    """Return strategy purity beta = sum p^2 (collision probability); H2 = -log beta <= H1."""
    return xp.sum(p * p, axis=-1)


def kl(xp: Any, p: Any, q: Any) -> Any:
    """Return KL(p || q) in nats. In log p and log q a probability counts as FLOOR at least: a q
    that underflowed to 0 in float32 is improbable, not absent."""
    log_ratio = xp.log(xp.where(p > FLOOR, p, FLOOR) / xp.where(q > FLOOR, q, FLOOR))
    return xp.sum(p * log_ratio, axis=-1)


def kl_reversed(xp: Any, p: Any, q: Any) -> Any:
    """Return KL(q || p) in nats."""
    return kl(xp, q, p)


def js(xp: Any, p: Any, q: Any) -> Any:
    """Return the Jensen-Shannon divergence KL(p||m)/2 + KL(q||m)/2, m = (p+q)/2, in [0, log 2].

    Written with d = (p-q) / (p+q), since p/m = 1+d and q/m = 1-d: then rounding adds about
    eps * sqrt(JS). Through log(p/m), or H(m) - H(p)/2 - H(q)/2, it would add eps, and give
    negative values. |d| stops an eps short of 1, where the logarithm of a probability of 0, which
    counts for nothing, would be infinite.
    """
    edge = 1.0 - xp.finfo(p.dtype).eps
    d = xp.clip((p - q) / (p + q + FLOOR), -edge, edge)
    return 0.5 * xp.sum(p * xp.log1p(d) + q * xp.log1p(-d), axis=-1)


def wasserstein(xp: Any, p: Any, q: Any) -> Any:
    """Return the Wasserstein-1 distance over token ids: sum |CDF_p - CDF_q|, in ids.

    Token ids carry no meaning as a metric; it is here because the ICT paper (table 3) tries it.
    """
    return xp.sum(xp.abs(xp.cumsum(p - q, axis=-1)), axis=-1)


def itself(xp: Any, p: Any) -> Any:
    """Return p, for a statistic that takes the probability of the token."""
    return p


def pick(xp: Any, values: Any, index: Any) -> Any:
    """Return (N,) values[n, index[n]] of (N, V)."""
    return xp.take_along_axis(values, index[:, None], -1)[:, 0]


MeanOver = Literal["position", "response", "group"]


@dataclass(frozen=True)
class Statistic:
    """A number per token, computed from the distribution p that it was drawn from, at temperature
    1.

    | kind | the formula takes | and is |
    |---|---|---|
    | alone | p | the number |
    | token | p | another distribution, of which the number is that of the token drawn |
    | group | p, a mean of the group | the number |

    They are taken while decoding, or of given rollouts by a pass: `Engine.score`.
    """

    formula: Callable[..., Any]
    """Takes the array namespace and what the kind says; drops the last axis, but for `token`."""
    kind: Literal["alone", "token", "group"]
    about: str
    """What it is, with its unit."""
    mean: bool = False
    """Whether its mean over all tokens is a metric, by the statistic's name."""
    mean_over: MeanOver = "position"
    """What p is compared with, where the kind is group: the mean over the group's tokens at the
    position, over the response's tokens, or over all tokens of the group. The last two are known
    when a group has ended, and take two passes after it."""

    def at(self, xp: Any, p: Any, tokens: Any) -> Any:
        """Return (N,) of p (N, V) for the tokens (N,), for a statistic of p alone."""
        values = self.formula(xp, p)
        return pick(xp, values, tokens) if self.kind == "token" else values


STATISTICS: dict[str, Statistic] = {
    "entropy": Statistic(entropy, "alone", "Shannon entropy H1, nats", mean=True),
    "purity": Statistic(purity, "alone", "strategy purity beta = sum p^2; H2 = -log beta"),
    "prob": Statistic(itself, "token", "p of the token"),
    "uniqueness": Statistic(js, "group", "u = JS(p, P_avg), nats, in [0, log 2]", mean=True),
    "uniqueness_response": Statistic(
        js, "group", "JS(p, mean p of the response), nats", mean_over="response"
    ),
    "uniqueness_group": Statistic(
        js, "group", "JS(p, mean p of all tokens of the group), nats", mean_over="group"
    ),
    "kl_from_mean": Statistic(kl, "group", "KL(p || P_avg), nats"),
    "kl_to_mean": Statistic(kl_reversed, "group", "KL(P_avg || p), nats"),
    "wasserstein": Statistic(wasserstein, "group", "Wasserstein-1 distance of p and P_avg, ids"),
}
"""All statistics by name; a plugin adds its own. Those of a group at a position are exactly 0 where
all rollouts share a prefix."""


def statistic(name: str) -> Statistic:
    """Return the statistic of that name. UserError where there is none."""
    if name not in STATISTICS:
        hint = "a plugin declares one in ictcli.algorithm.quantities.STATISTICS"
        raise unknown("token statistic", name, STATISTICS, hint)
    return STATISTICS[name]

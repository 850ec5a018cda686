"""The quantities of ICT at one position, written once for any array namespace, and the statistics
of tokens computed from them.

`xp` is numpy, torch or mlx.core: each has log, log1p, sum, clip, where, abs, finfo and cumsum. The
engines run this code on the device in float32; tests compare it with NumPy in float64, and that
with scipy. Distributions lie along the last axis; every result drops it. Natural logarithms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ictcli.errors import unknown

FLOOR = 1e-37
"""About the smallest normal number of float32."""


def entropy(xp: Any, p: Any) -> Any:
    """Return Shannon's entropy H1 = -sum p log p of probabilities p (..., V), in nats."""
    return -xp.sum(p * xp.log(p + FLOOR), axis=-1)


def purity(xp: Any, p: Any) -> Any:
    """Return strategy purity beta = sum p^2 (collision probability); H2 = -log beta <= H1."""
    return xp.sum(p * p, axis=-1)


def kl(xp: Any, p: Any, q: Any) -> Any:
    """Return KL(p || q) in nats. Probabilities below FLOOR count as FLOOR in the logarithms: a q
    that underflowed to 0 in float32 is improbable, not impossible."""
    log_ratio = xp.log(xp.where(p > FLOOR, p, FLOOR) / xp.where(q > FLOOR, q, FLOOR))
    return xp.sum(p * log_ratio, axis=-1)


def kl_reversed(xp: Any, p: Any, q: Any) -> Any:
    """Return KL(q || p) in nats."""
    return kl(xp, q, p)


def js(xp: Any, p: Any, q: Any) -> Any:
    """Return the Jensen-Shannon divergence KL(p||m)/2 + KL(q||m)/2, m = (p+q)/2, in [0, log 2].

    It is computed from d = (p-q) / (p+q), since p/m = 1+d and q/m = 1-d, with a rounding error of
    about eps * sqrt(JS). With log(p/m) or H(m) - H(p)/2 - H(q)/2, the error would be eps, and
    results could be negative. |d| is at most 1 - eps: at 1 the logarithm of a probability of 0 is
    infinite, though its term should be 0."""
    edge = 1.0 - xp.finfo(p.dtype).eps
    d = xp.clip((p - q) / (p + q + FLOOR), -edge, edge)
    return 0.5 * xp.sum(p * xp.log1p(d) + q * xp.log1p(-d), axis=-1)


def wasserstein(xp: Any, p: Any, q: Any) -> Any:
    """Return the Wasserstein-1 distance over token ids: sum |CDF_p - CDF_q|, in ids.

    Differences of token ids have no meaning; this distance is here as the ICT paper tries it (table
    3).
    """
    return xp.sum(xp.abs(xp.cumsum(p - q, axis=-1)), axis=-1)


def itself(xp: Any, p: Any) -> Any:
    """Return p, as the formula of the statistic `prob`."""
    return p


def pick(xp: Any, values: Any, index: Any) -> Any:
    """Return values[n, index[n]], (N,), from values (N, V)."""
    return xp.take_along_axis(values, index[:, None], -1)[:, 0]


MeanOver = Literal["position", "response", "group"]


@dataclass(frozen=True)
class Statistic:
    """A number per token, computed from the model's distribution p at the token, at temperature 1.

    | kind | formula | the token's number |
    |---|---|---|
    | alone | f(p), a number | f(p) |
    | token | f(p), a number per token id | the drawn token's number |
    | group | f(p, P), P a mean of p over the group | f(p, P) |

    Statistics are recorded while decoding, or by `Engine.score` in a pass over given rollouts.
    """

    formula: Callable[..., Any]
    """Function of `xp` and the table's arguments; drops the last axis, except for kind `token`."""
    kind: Literal["alone", "token", "group"]
    about: str
    """Description, with the unit."""
    mean: bool = False
    """Whether the mean over all tokens is a metric, under the statistic's name."""
    mean_over: MeanOver = "position"
    """For kind `group`, the tokens over which the mean P is taken: the group's at the position, the
    response's, or all of the group's. The last two need two passes once a group has ended."""

    def at(self, xp: Any, p: Any, tokens: Any) -> Any:
        """Return a statistic (N,) of tokens (N,) drawn from p (N, V); its kind is not `group`."""
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
"""All statistics by name; a plugin can add more. Where all rollouts of a group share a prefix,
`group` statistics over the position are exactly 0."""


def statistic(name: str) -> Statistic:
    """Return the statistic of that name. UserError if there is none."""
    if name not in STATISTICS:
        hint = "a plugin can add one to ictcli.algorithm.quantities.STATISTICS"
        raise unknown("token statistic", name, STATISTICS, hint)
    return STATISTICS[name]

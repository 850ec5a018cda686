"""The theory's diagnostics: what a step's tokens look like.

Source: arXiv 2606.19771. A token with pi > beta is in R_H, where raising it lowers H2 (collapse);
one with pi < beta is in R_L, where raising it raises H2 (explosion).
"""

import numpy as np

from ictcli.algorithm.quantities import statistic
from ictcli.types import BoolArray, FloatArray, Rollouts


def mean_or_none(values: FloatArray | BoolArray | list[float]) -> float | None:
    """The mean, or None if there are no values."""
    return float(np.mean(values, dtype=np.float64)) if len(values) else None


def diagnose(rollouts: Rollouts, advantage: FloatArray, kept: BoolArray) -> dict[str, float | None]:
    """One step's diagnostics, by the names of metrics.jsonl; None where there is nothing to mean.

    The means over all tokens of the statistics that say so (`Statistic.mean`); renyi2: that of H2,
    nats. share_kept, kept_prob, regime_high, regime_low: of the kept tokens, against all, their
    mean pi, and their shares in R_H and R_L.
    share_kept_positive and _negative: share kept in responses with A > 0 and with A < 0.
    """
    valid, stats = rollouts.valid, rollouts.stats
    beta, prob = stats["purity"], stats["prob"]
    sign = advantage[:, None]
    report = {name: mean_or_none(x[valid]) for name, x in stats.items() if statistic(name).mean}
    report |= {
        "renyi2": mean_or_none(-np.log(beta[valid])),
        "share_kept": mean_or_none(kept[valid]),
        "kept_prob": mean_or_none(prob[kept]),
        "regime_high": mean_or_none((prob > beta)[kept]),
        "regime_low": mean_or_none((prob < beta)[kept]),
        "share_kept_positive": mean_or_none(kept[valid & (sign > 0)]),
        "share_kept_negative": mean_or_none(kept[valid & (sign < 0)]),
    }
    return report


def softmax(logits: FloatArray) -> FloatArray:
    """Softmax along the last axis in float64."""
    shifted = np.asarray(logits, dtype=np.float64)
    shifted = np.exp(shifted - shifted.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)

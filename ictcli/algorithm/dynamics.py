"""Diagnostics of a step's tokens, from the theory of ICT (arXiv 2606.19771).

A token with pi > beta (the purity sum p^2) is in the regime R_H: raising pi lowers the entropy H2
(collapse). A token with pi < beta is in R_L: raising pi raises H2 (explosion).
"""

import numpy as np

from ictcli.algorithm.branches import where_kept
from ictcli.algorithm.quantities import statistic
from ictcli.types import BoolArray, FloatArray, Rollouts


def mean_or_none(values: FloatArray | BoolArray | list[float]) -> float | None:
    """Return the mean, or None if there are no values."""
    return float(np.mean(values, dtype=np.float64)) if len(values) else None


def spearman(x: FloatArray, y: FloatArray) -> float | None:
    """Return Spearman's rank correlation, or None if it is undefined."""
    if x.size < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    pairs = np.column_stack([ranks(x), ranks(y)])
    return float(np.asarray(np.corrcoef(pairs, rowvar=False))[0, 1])


def ranks(values: FloatArray) -> FloatArray:
    """Return ranks from 1; equal values get the mean of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def diagnose(rollouts: Rollouts, advantage: FloatArray, kept: BoolArray) -> dict[str, float | None]:
    """Return a step's diagnostics by their names in metrics.jsonl; None if there is no value.

    Statistics with `Statistic.mean` are reported as their means; renyi2 is the mean of H2 in nats.
    share_kept is the share of tokens kept by the method; share_kept_positive and
    share_kept_negative are that share in responses with A > 0 and A < 0. Of the kept tokens,
    kept_prob is the mean pi, and regime_high and regime_low are the shares in R_H and R_L.
    high_low_ratio is the number of kept tokens with H1 above the batch's median, divided by that of
    other kept tokens (our threshold; the paper names none). uniqueness_entropy_spearman is reported
    if the uniqueness was recorded. `branches.where_kept` describes the rest."""
    valid, stats = rollouts.valid, rollouts.stats
    H1, beta, prob = stats["entropy"], stats["purity"], stats["prob"]
    high = np.median(H1[valid]) < H1
    low_kept = int((kept & ~high).sum())
    sign = advantage[:, None]
    report = {name: mean_or_none(x[valid]) for name, x in stats.items() if statistic(name).mean}
    report |= {
        "renyi2": mean_or_none(-np.log(beta[valid])),
        "share_kept": mean_or_none(kept[valid]),
        "kept_prob": mean_or_none(prob[kept]),
        "regime_high": mean_or_none((prob > beta)[kept]),
        "regime_low": mean_or_none((prob < beta)[kept]),
        "high_low_ratio": int((kept & high).sum()) / low_kept if low_kept else None,
        "share_kept_positive": mean_or_none(kept[valid & (sign > 0)]),
        "share_kept_negative": mean_or_none(kept[valid & (sign < 0)]),
    }
    report |= where_kept(rollouts, kept)
    if "uniqueness" in stats:
        report["uniqueness_entropy_spearman"] = spearman(stats["uniqueness"][valid], H1[valid])
    return report

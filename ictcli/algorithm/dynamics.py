"""The theory's diagnostics: what a step's tokens look like, and what an update does to H2.

Source: arXiv 2606.19771. A token with pi > beta is in R_H, where raising it lowers H2 (collapse);
one with pi < beta is in R_L, where raising it raises H2 (explosion).
"""

import numpy as np

from ictcli.algorithm.quantities import statistic
from ictcli.types import BoolArray, FloatArray, Rollouts


def mean_or_none(values: FloatArray | BoolArray | list[float]) -> float | None:
    """The mean, or None if there are no values."""
    return float(np.mean(values, dtype=np.float64)) if len(values) else None


def spearman(x: FloatArray, y: FloatArray) -> float | None:
    """Spearman's rank correlation, or None where it is undefined."""
    if x.size < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    both = np.column_stack([ranks(x), ranks(y)])
    return float(np.asarray(np.corrcoef(both, rowvar=False))[0, 1])


def ranks(values: FloatArray) -> FloatArray:
    """From 1 up; equal values share the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def diagnose(rollouts: Rollouts, advantage: FloatArray, kept: BoolArray) -> dict[str, float | None]:
    """One step's diagnostics, by the names of metrics.jsonl; None where there is nothing to mean.

    The means over all tokens of the statistics that say so (`Statistic.mean`); renyi2: that of H2,
    nats. share_kept, kept_prob, regime_high, regime_low: of the kept tokens, against all, their
    mean pi, and their shares in R_H and R_L.
    high_low_ratio: kept tokens above against not above the batch's median H1 (threshold ours; the
    paper names none). uniqueness_entropy_spearman where u was recorded. share_kept_positive and
    _negative: share kept in responses with A > 0 and with A < 0.
    """
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
    if "uniqueness" in stats:
        report["uniqueness_entropy_spearman"] = spearman(stats["uniqueness"][valid], H1[valid])
    return report


def softmax(logits: FloatArray) -> FloatArray:
    """Softmax along the last axis in float64."""
    shifted = np.asarray(logits, dtype=np.float64)
    shifted = np.exp(shifted - shifted.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def renyi2(logits: FloatArray) -> FloatArray:
    """H2 = -log sum p^2 of softmax(logits), nats, float64; drops the last axis."""
    return -np.log((softmax(logits) ** 2).sum(axis=-1))


def predicted_change(before: FloatArray, change: FloatArray) -> FloatArray:
    """First-order dH2 of a logit change dtheta over V: -2 (E_{p2}[dtheta] - E_p[dtheta]).

    `before` and `change` (..., V); p2 = p^2 / beta. Adding a constant to all logits changes
    nothing, exactly as it should.
    """
    p = softmax(before)
    p2 = p**2 / (p**2).sum(axis=-1, keepdims=True)
    dtheta = np.asarray(change, dtype=np.float64)
    return -2.0 * ((p2 - p) * dtheta).sum(axis=-1)


def validate(before: FloatArray, after: FloatArray) -> dict[str, float | None]:
    """The experiment of A.3.5: measured against predicted dH2 at N probed positions (N, V).

    Gives Pearson's r, the mean absolute error and the mean measured change. The paper claims
    r > 0.95 and an error under 0.02.
    """
    before64, after64 = np.asarray(before, np.float64), np.asarray(after, np.float64)
    measured = renyi2(after64) - renyi2(before64)
    predicted = predicted_change(before64, after64 - before64)
    defined = len(measured) > 1 and np.ptp(measured) > 0 and np.ptp(predicted) > 0
    return {
        "probe_positions": float(len(measured)),
        "probe_pearson": float(np.corrcoef(measured, predicted)[0, 1]) if defined else None,
        "probe_error": mean_or_none(np.abs(measured - predicted)),
        "probe_change": mean_or_none(measured),
    }

"""Families of differences, tested together: Holm's correction (Holm 1979), and the intervals at the
level at which it tests each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ictcli.compare.crossed import LEVEL
from ictcli.compare.statistics import (
    BEFORE,
    Evidence,
    PairedDifference,
    Scores,
    evidence,
    paired,
    variance,
)


def differences(
    scores: Scores,
    rivals: str | Mapping[str, str],
    extra: Mapping[str, Mapping[str, float]] = {},
    level: float = LEVEL,
) -> dict[str, dict[str, PairedDifference]]:
    """By metric and variant: its difference from its rival, all of them one family of Holm's. A
    variant that shares no seed with its rival is left out. One rival is that of all variants, but
    of the model before training."""
    if isinstance(rivals, str):
        labels = next(iter(scores.values()))
        rivals = {each: rivals for each in labels if each not in (rivals, BEFORE)}
    family = {
        (metric, variant): evidence(
            by_variant[variant], by_variant[rival], variance(extra, metric, variant, rival)
        )
        for metric, by_variant in scores.items()
        for variant, rival in rivals.items()
        if paired(by_variant[variant], by_variant[rival])
    }
    found = dict(zip(family, corrected(list(family.values()), level), strict=True))
    return {metric: {v: found[m, v] for m, v in found if m == metric} for metric in scores}


def corrected(
    family: Sequence[Evidence], level: float = LEVEL, unmeasured: int = 0
) -> list[PairedDifference]:
    """The differences of a family, tested at `level` after Holm's correction; those without a p
    stay out of it. `unmeasured` tests more belong to the family."""
    found = [each.difference() for each in family]
    equal = iter(holm([each.p_equal for each in found if each.p_equal is not None]))
    ps = [each.p for each in found if each.p is not None]
    tested = iter(step_down([*ps, *[1.0] * unmeasured]))
    return [
        replace(
            shown if shown.p is None else _at_level(shown, each, next(tested), level),
            level=level,
            p_equal=None if shown.p_equal is None else next(equal),
        )
        for shown, each in zip(found, family, strict=True)
    ]


def _at_level(
    found: PairedDifference, shown: Evidence, adjusted: float, level: float
) -> PairedDifference:
    """With p after Holm's correction, and the interval at the level at which that tests it."""
    own = level * (found.p / adjusted if found.p and adjusted else 1.0)
    low, high = shown.ends(own)[0] or (None, None)
    return replace(
        found,
        p_holm=min(adjusted, 1.0),
        low_holm=low,
        high_holm=high,
        detectable_holm=shown.detectable(own),
    )


def step_down(ps: Sequence[float]) -> list[float]:
    """The i-th smallest of m times m - i + 1, never less than a smaller one's."""
    order = np.argsort(ps, kind="stable")
    scaled = np.asarray(ps, dtype=np.float64)[order] * np.arange(len(ps), 0, -1)
    adjusted = np.empty(len(ps))
    adjusted[order] = np.maximum.accumulate(scaled)
    return adjusted.tolist()


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p (Holm 1979)."""
    return [min(p, 1.0) for p in step_down(ps)]

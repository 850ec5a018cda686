"""What a difference of means hides: ceilings, and runs that crashed.

A run crashed if it ended far below the other seeds of its variant: its pass@1 is less than half of
their median, at least 10 points lower, and lower by more than chance with few problems and samples;
or more than half of its samples have no readable answer where fewer than a quarter of theirs have
none (medians). Ours. It takes three runs of a variant.

The crossed test takes runs to vary about normally, which these do not (`bench/worlds.py`), so the
others are compared too. That says how methods do where they hold, not how often they do.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ictcli.compare.statistics import BEFORE, Scores
from ictcli.tables.numbers import counted, percent
from ictcli.types import FloatArray

CEILING = 0.95
"""A mean above it is at its ceiling, one below 1 - CEILING at its floor: methods can hardly differ
there."""
LEAST_RUNS = 3
PART, POINTS = 0.5, 0.1
"""A crashed run reaches less than this part of the others' median, and is this much lower."""
CHANCE = 3.0
"""Standard errors over problems that chance alone does not explain."""
UNREADABLE, READABLE = 0.5, 0.25
"""Shares of samples without a readable answer: of a crashed run more, of the others fewer."""

Crashed = Mapping[str, Sequence[int]]
"""By variant, the places of the seeds of runs that crashed; variants without one are left out."""


def crashed_runs(scores: Scores, unparsed: Mapping[str, FloatArray]) -> dict[str, list[int]]:
    """The runs that crashed, by the smallest k of `scores`. unparsed: (S,) shares of samples
    without a readable answer, by variant; NaN where a run is missing."""
    crashed: dict[str, list[int]] = {}
    for label, values in next(iter(scores.values())).items():
        unread = unparsed.get(label)
        seeds = [seed for seed in range(len(values)) if _is_crashed(values, unread, seed)]
        if seeds and label != BEFORE:
            crashed[label] = seeds
    return crashed


def without(scores: Scores, crashed: Crashed) -> Scores:
    """The scores with the crashed runs missing."""

    def kept(label: str, values: FloatArray) -> FloatArray:
        values = values.copy()
        values[list(crashed.get(label, ()))] = np.nan
        return values

    return {
        metric: {label: kept(label, values) for label, values in by_variant.items()}
        for metric, by_variant in scores.items()
    }


def caveats(
    scores: Scores, metrics: Sequence[str], labels: Sequence[str], crashed: Crashed
) -> tuple[str, ...]:
    """The ceilings, floors and crashed runs that a comparison touches, a phrase each."""
    phrases: list[str] = []
    for metric in metrics:
        for label in labels:
            mean = float(np.nanmean(scores[metric][label]))
            if not 1 - CEILING <= mean <= CEILING:
                bound = "ceiling" if mean > CEILING else "floor"
                phrases.append(f"{bound}: {metric} of {label} is {percent(mean)} %")
    for label in labels:
        if label in crashed:
            runs = counted(len(crashed[label]), "run")
            phrases.append(f"mixture: {runs} of {label} crashed")
    return tuple(phrases)


def _is_crashed(values: FloatArray, unparsed: FloatArray | None, seed: int) -> bool:
    others = np.delete(values, seed, axis=0)
    others = others[~np.isnan(others).any(axis=1)]
    mean = float(values[seed].mean())
    if np.isnan(mean) or len(others) < LEAST_RUNS - 1:
        return False
    median = float(np.median(others.mean(axis=1)))
    if mean < PART * median and mean <= median - POINTS and _below(values[seed], others):
        return True
    if unparsed is None:
        return False
    typical = float(np.nanmedian(np.delete(unparsed, seed)))
    return bool(unparsed[seed] > UNREADABLE and typical < READABLE)


def _below(run: FloatArray, others: FloatArray) -> bool:
    """Whether a run (N,) is below the mean of others (S, N) by more than chance explains."""
    below = others.mean(axis=0) - run
    if len(below) < 2:
        return False
    return bool(below.mean() > CHANCE * below.std(ddof=1) / np.sqrt(len(below)))

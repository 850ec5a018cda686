"""Differences between variants with Holm's correction (Holm 1979) and corrected intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ictcli.compare.crossed import LEVEL
from ictcli.compare.statistics import Evidence, PairedDifference, Scores, evidence, paired

K = TypeVar("K")


@dataclass(frozen=True)
class Contrast:
    """The labels of two variants to compare: `variant` minus `rival`."""

    variant: str
    rival: str

    @property
    def name(self) -> str:
        """Return the contrast as it is typed for the option `--contrast`."""
        return f"{self.variant}:{self.rival}"

    @property
    def text(self) -> str:
        return f"{self.variant} \u2212 {self.rival}"


def differences(
    scores: Scores, contrasts: Sequence[Contrast]
) -> dict[str, dict[str, PairedDifference]]:
    """Return differences by metric and contrast name, corrected as one family of tests. A contrast
    is left out if its two variants have no finished seed in common."""
    family = {
        (metric, contrast.name): evidence(cells[contrast.variant], cells[contrast.rival])
        for metric, cells in scores.items()
        for contrast in contrasts
        if paired(cells[contrast.variant], cells[contrast.rival])
    }
    tested = corrected(family)
    return {
        metric: {name: tested[of, name] for of, name in tested if of == metric} for metric in scores
    }


def corrected(family: Mapping[K, Evidence]) -> dict[K, PairedDifference]:
    """Return the differences of a family of tests, with Holm's correction over the tests that have
    a p value."""
    rows = {key: cells.difference() for key, cells in family.items()}
    tested = iter(step_down([row.p for row in rows.values() if row.p is not None]))
    return {
        key: row if row.p is None else _at_level(row, family[key], next(tested))
        for key, row in rows.items()
    }


def _at_level(row: PairedDifference, cells: Evidence, adjusted: float) -> PairedDifference:
    level = LEVEL * (row.p / adjusted if row.p and adjusted else 1.0)
    low, high = cells.ends(level) or (None, None)
    return replace(
        row,
        p_holm=min(adjusted, 1.0),
        low_holm=low,
        high_holm=high,
        detectable_holm=cells.detectable(level),
    )


def step_down(ps: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p values, not cut at 1. The i-th smallest of m values is multiplied by
    m - i + 1, and is at least the adjusted value of the next smaller p."""
    order = np.argsort(ps, kind="stable")
    scaled = np.asarray(ps, dtype=np.float64)[order] * np.arange(len(ps), 0, -1)
    adjusted = np.empty(len(ps))
    adjusted[order] = np.maximum.accumulate(scaled)
    return adjusted.tolist()

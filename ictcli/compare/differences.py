"""Differences between variants, tested together: Holm's correction (Holm 1979) and the intervals at
the level at which it tests each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ictcli.compare.crossed import LEVEL
from ictcli.compare.statistics import Evidence, PairedDifference, Scores, evidence, paired

K = TypeVar("K")


@dataclass(frozen=True)
class Contrast:
    """A variant and the one that it is compared with, by their labels."""

    variant: str
    rival: str

    @property
    def name(self) -> str:
        """Return its name as `--contrast` takes it."""
        return f"{self.variant}:{self.rival}"

    @property
    def text(self) -> str:
        return f"{self.variant} \u2212 {self.rival}"


def differences(
    scores: Scores, contrasts: Sequence[Contrast]
) -> dict[str, dict[str, PairedDifference]]:
    """Return the difference of every contrast by metric and name, all of them one family of tests.
    A contrast whose two variants share no finished seed is left out."""
    family = {
        (metric, each.name): evidence(cells[each.variant], cells[each.rival])
        for metric, cells in scores.items()
        for each in contrasts
        if paired(cells[each.variant], cells[each.rival])
    }
    tested = corrected(family)
    return {
        metric: {name: tested[of, name] for of, name in tested if of == metric} for metric in scores
    }


def corrected(family: Mapping[K, Evidence]) -> dict[K, PairedDifference]:
    """Return the differences of a family after Holm's correction; those without a p stay out of
    it."""
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
    """Return Holm's adjusted p, not cut at 1: the i-th smallest of m times m - i + 1, never less
    than a smaller one's."""
    order = np.argsort(ps, kind="stable")
    scaled = np.asarray(ps, dtype=np.float64)[order] * np.arange(len(ps), 0, -1)
    adjusted = np.empty(len(ps))
    adjusted[order] = np.maximum.accumulate(scaled)
    return adjusted.tolist()

"""The sentences of a report that state results."""

from collections.abc import Sequence

from ictcli.compare.comparison import Comparison, Curve
from ictcli.compare.statistics import BEFORE, PairedDifference
from ictcli.tables.numbers import counted, listed, percent


def answer(c: Comparison) -> str:
    """Return a sentence or two on the result of the comparison by its first metric."""
    metric = next(iter(c.estimates))
    rows = c.differences.get(metric, {})
    pairs = [(contrast, rows[contrast.name]) for contrast in c.contrasts if contrast.name in rows]
    if not pairs:
        return f"On {c.task} nothing was compared. {_before(c)}"
    over = f"{counted(len(c.seeds), 'seed')} and {counted(c.problems, 'problem')}"
    if len(c.seeds) == 1:
        return f"One seed cannot tell methods apart: --seeds 3 or more can. {_before(c)}"
    parts: list[str] = []
    alike: dict[str, list[str]] = {}
    for contrast, row in pairs:
        if row.differs:
            more = "more" if row.value > 0 else "fewer"
            parts.append(
                f"{contrast.variant} solves {percent(abs(row.value))} points {more} of the "
                f"problems than {contrast.rival}"
            )
        else:
            alike.setdefault(contrast.rival, []).append(contrast.variant)
    for rival, variants in alike.items():
        verb = "is" if len(variants) == 1 else "are"
        parts.append(f"{listed(variants)} {verb} not distinguishable from {rival}")
    return f"On {c.task}, by {metric} over {over}: {'; '.join(parts)}. {_before(c)}"


def _before(c: Comparison) -> str:
    metric, estimates = next(iter(c.estimates.items()))
    after = [f"{label} {percent(of.value)} %" for label, of in estimates.items() if label != BEFORE]
    before = percent(estimates[BEFORE].value)
    return f"Before training {metric} was {before} %, after it {listed(after)}."


def curves(c: Comparison) -> dict[str, dict[str, Curve]]:
    """Return the curves by metric and label, without those that have no values."""
    recorded = {
        name: {label: curve for label, curve in rows.items() if curve.step}
        for name, rows in c.curves.items()
    }
    return {name: rows for name, rows in recorded.items() if rows}


def detectable(rows: Sequence[PairedDifference]) -> str:
    """Return the range of detectable differences, in points, as text; empty without any test."""
    sizes = [1.0 if row.detectable_holm is None else row.detectable_holm for row in rows if row.p]
    return " to ".join(dict.fromkeys(map(percent, (min(sizes), max(sizes))))) if sizes else ""

"""What the sentences of a report are made of: counts, ranges and what is missing."""

from collections.abc import Mapping
from typing import Any

from ictcli.compare.claims import SUBJECT, JudgedDifference, better
from ictcli.compare.comparison import CURVES, Comparison, Curve
from ictcli.compare.gradients import LostUniqueness
from ictcli.compare.statistics import BEFORE, PairedDifference
from ictcli.recipe import toml_value
from ictcli.tables.numbers import (
    count_range,
    counted,
    interval,
    listed,
    percent,
    points,
    setting,
)


def runs(comparison: Comparison) -> list[int]:
    return [variant.runs for variant in comparison.variants]


def sizes(comparison: Comparison) -> str:
    """How many runs, problems and samples a figure is from."""
    each = runs(comparison)
    return (
        f"{counted(sum(each), 'run')} ({count_range(each)} a method), "
        f"{counted(comparison.problems, 'problem')}, {counted(comparison.n, 'sample')} each"
    )


def model(comparison: Comparison) -> str:
    size = comparison.device.get("parameters")
    return comparison.model + (f" ({size:,} parameters)" if size else "")


def facts(comparison: Comparison) -> list[tuple[str, str]]:
    failed = sum(variant.failed for variant in comparison.variants)
    device = comparison.device
    known = {
        "recipe": comparison.recipe,
        "task": comparison.task,
        "model": comparison.model,
        "runs": f"{sum(runs(comparison))}" + (f" ({failed} more failed)" if failed else ""),
        "seeds": str(len(comparison.seeds)),
        "steps a run": f"{comparison.steps:,}",
        "problems": f"{comparison.problems:,}, {counted(comparison.n, 'sample')} each",
        "baseline": comparison.baseline,
        "device": str(device.get("device_name") or device.get("device") or ""),
    }
    return [fact for fact in known.items() if fact[1]]


def reached(comparison: Comparison) -> str:
    """pass@1 before and after training, where it fits a sentence."""
    estimates = comparison.estimates.get("pass@1", {})
    values = [f"{v} {percent(each.value)}" for v, each in estimates.items() if v != BEFORE]
    if not 0 < len(values) <= 6 or BEFORE not in estimates:
        return ""
    return f"From {percent(estimates[BEFORE].value)} % pass@1 before training: {listed(values)} %."


def subject_difference(comparison: Comparison) -> str:
    """The difference of ict from the baseline, where both were run."""
    metric = next(iter(comparison.differences), "")
    row = comparison.differences[metric].get(SUBJECT) if metric else None
    if row is None or row.low is None:
        return ""
    judged = "significant" if row.differs else "not significant"
    if row.p is None:
        judged = "the same on every problem and seed, so there is no test"
    return (
        f"{SUBJECT} lies {percent(abs(row.value))} points of {metric} "
        f"{'above' if row.value >= 0 else 'below'} {comparison.baseline} on {comparison.task} at "
        f"this size (95 % interval {interval(row.low, row.high, points)}): {judged}."
    )


def generalised(comparison: Comparison) -> set[str]:
    """What the intervals of estimates are over, and `bound` if some are at 0 or 1."""
    every = [each for rows in comparison.estimates.values() for each in rows.values()]
    at_bound = [each for each in every if each.value in (0, 1) and each.low is not None]
    over = {each.over for each in every if each.seeds == 1 or each not in at_bound}
    return over | ({"bound"} if at_bound else set())


def compared(comparison: Comparison) -> dict[str, Mapping[str, PairedDifference]]:
    """By metric the differences from the baseline, where there are any."""
    return {metric: rows for metric, rows in comparison.differences.items() if rows}


def tests(comparison: Comparison) -> int:
    every = [each for rows in comparison.differences.values() for each in rows.values()]
    return sum(each.p_holm is not None for each in every)


def not_compared(comparison: Comparison) -> list[str]:
    known = {label for rows in comparison.differences.values() for label in rows}
    known.add(comparison.baseline)
    return [each.label for each in comparison.variants if each.label not in known]


def judged_apart(
    comparison: Comparison,
) -> list[tuple[str, JudgedDifference, PairedDifference]]:
    """Differences that a verdict and a row of the tables judge apart, by variant and metric."""
    tests = {claim.name: claim.test for claim in comparison.claims}
    apart: list[tuple[str, JudgedDifference, PairedDifference]] = []
    for metric, rows in comparison.differences.items():
        for label, row in rows.items():
            test = tests.get(better(comparison.task, label, comparison.baseline, metric))
            if test is None or test.p_holm is None or row.p_holm is None:
                continue
            if test.differs != row.differs:
                apart.append((f"{label}, {metric}", test, row))
    return apart


def detectable(comparison: Comparison) -> str:
    """Between which differences those lie that are likely to be missed, in points."""
    every = [each for rows in comparison.differences.values() for each in rows.values()]
    tested = [each for each in every if each.p is not None and each.seeds > 1]
    sizes = [1.0 if each.detectable is None else each.detectable for each in tested]
    return " to ".join(dict.fromkeys((percent(min(sizes)), percent(max(sizes))))) if sizes else ""


def curves(comparison: Comparison) -> dict[str, dict[str, Curve]]:
    """Those that were recorded, in the order in which they are drawn."""
    drawn = {name: known(comparison.curves.get(name, {}), "step") for name in CURVES}
    return {name: rows for name, rows in drawn.items() if rows}


def labels(curves: Mapping[str, Mapping[str, Curve]]) -> list[str]:
    return list(dict.fromkeys(label for rows in curves.values() for label in rows))


def missing(curves: Mapping[str, Mapping[str, Curve]]) -> list[str]:
    """Titles of the curves that were not recorded."""
    return [title for name, (title, _) in CURVES.items() if name not in curves]


def known(records: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The records by label of which a field holds anything."""
    return {label: each for label, each in records.items() if getattr(each, field)}


def losses(comparison: Comparison) -> dict[str, LostUniqueness]:
    found = comparison.attribution.items()
    return {label: each.uniqueness for label, each in found if each.uniqueness}


def tunes_rate(comparison: Comparison) -> bool:
    """Whether the learning rate was chosen for each method by itself."""
    grid = [override for variant in comparison.variants for override in variant.tuned or {}]
    return any(override.startswith("lr=") for override in grid)


def sweeps_rate(comparison: Comparison) -> bool:
    overrides = [override for each in comparison.variants for override in each.overrides]
    return any(override.startswith("lr=") for override in overrides)


def rates(comparison: Comparison) -> list[str]:
    return [setting(rate) for rate in sorted({variant.lr for variant in comparison.variants})]


def at_edge(comparison: Comparison) -> str:
    """Which methods ended at the smallest or the largest of the values that were tried."""
    ends: dict[str, list[str]] = {}
    for variant in comparison.variants:
        tried = {each: toml_value(each.partition("=")[2]) for each in variant.tuned or {}}
        chosen, values = variant.chosen, tried.values()
        if chosen not in tried or not all(type(value) in (int, float) for value in values):
            continue
        for end, edge in (("largest", max(values)), ("smallest", min(values))):
            if tried[chosen] == edge and len(tried) > 1:
                place = f"{chosen}, the {end} of {len(tried)}"
                ends.setdefault(place, []).append(variant.label)
    return "; ".join(f"{listed(labels)} ({end})" for end, labels in ends.items())


def incomplete(comparison: Comparison) -> list[str]:
    """Methods with fewer runs than were planned."""
    return [
        f"{each.label} finished {each.runs} of {each.runs + each.failed}"
        for each in comparison.variants
        if each.failed
    ]

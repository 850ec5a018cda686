"""The figures of the report: charts of a comparison."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from ictcli.algorithm.attribution import KINDS
from ictcli.compare.comparison import CURVES, Comparison, Cost, Curve, Probe
from ictcli.compare.entropy_claims import ERROR_BELOW, PEARSON_ABOVE
from ictcli.compare.gradients import Attribution, LostUniqueness
from ictcli.compare.report.drawing import Axis, Chart, axis, short
from ictcli.compare.report.palette import CIRCLE, CROSS, SQUARE, Key, Looks
from ictcli.compare.shared_rollouts import ForkComparison, Places, UniquenessCurve
from ictcli.compare.statistics import PairedDifference
from ictcli.compare.variants import STOPPED
from ictcli.tables.table import Bounded
from ictcli.text import visible

STEPS = 160
"""Points of a curve at most; longer ones are drawn as means of as many steps as that takes."""
SOFT = "var(--soft)"
PALE = dict(zip(KINDS, (1.0, 0.72, 0.42, 0.18), strict=True))
"""Opacity of each kind of token in a bar."""


def names(labels: Iterable[str], looks: Looks) -> list[str]:
    return [looks[label].label for label in labels]


def ends(figures: Iterable[Bounded | None]) -> Iterator[float]:
    """Every end of intervals, and the figures within."""
    for each in figures:
        if each is not None:
            yield from (v for v in (each.value, each.low, each.high) if v is not None)


def forest(
    metric: str,
    differences: Mapping[str, PairedDifference],
    baseline: str,
    looks: Looks,
    title: str = "",
) -> Chart:
    """Differences with their intervals; filled where significant."""
    values = [0.0, *(100 * value for value in ends(differences.values()))]
    x = axis(f"points of {metric} above {short(visible(baseline))}", values)
    chart = Chart(title or metric, x, names(differences, looks))
    chart.rule(x=0)
    for row, (label, each) in enumerate(differences.items()):
        chart.interval(row, each, looks[label], hollow=not each.differs)
    return chart


def pass_curves(passk: Mapping[str, Mapping[int, float]], looks: Looks) -> Chart:
    ks = sorted({k for values in passk.values() for k in values})
    powers = [(math.log2(k), str(k)) for k in ks if k & (k - 1) == 0]
    x = Axis("k, on a log axis", -0.1, math.log2(ks[-1]) + 0.1, powers)
    y = axis("pass@k, %", (100 * v for values in passk.values() for v in values.values()))
    chart = Chart("pass@k against k", x, y)
    for label, values in passk.items():
        chart.line([(math.log2(k), 100 * v) for k, v in values.items()], looks[label], 8)
    return chart


def curve(name: str, curves: Mapping[str, Curve], looks: Looks) -> Chart:
    """A line a variant with its band from the smallest to the largest seed."""
    scale = 100 if name == "share_kept" else 1
    drawn = {label: thinned(each, scale) for label, each in curves.items()}
    values = [v for _, _, low, high in drawn.values() for v in (*low, *high)]
    low = 0.0 if name in ("share_kept", "length") else None
    steps = [step for step, *_ in drawn.values() for step in step]
    chart = Chart(CURVES[name][0], axis("step", steps), axis("", values, low))
    for label, (step, mean, low, high) in drawn.items():
        if (low, high) != (mean, mean):
            edges = [list(zip(step, edge, strict=True)) for edge in (low, high)]
            chart.band(edges[0], edges[1], looks[label])
    for label, (step, mean, *_) in drawn.items():
        chart.line(list(zip(step, mean, strict=True)), looks[label])
    return chart


def curve_charts(curves: Mapping[str, Mapping[str, Curve]], looks: Looks) -> list[Chart]:
    return [curve(name, rows, looks) for name, rows in curves.items()]


def stride_of(curves: Mapping[str, Mapping[str, Curve]]) -> int:
    """Steps that a point of the longest curve stands for."""
    return stride(max(len(each.step) for rows in curves.values() for each in rows.values()))


def stride(steps: int) -> int:
    """Steps of a curve that one drawn point stands for."""
    return max(1, -(-steps // STEPS))


def thinned(curve: Curve, scale: float = 1) -> tuple[list[float], ...]:
    """Step, mean, low and high of a curve in at most STEPS points: the last step, the mean, the
    smallest and the largest of each stretch."""
    points = list(zip(curve.step, curve.mean, curve.low, curve.high, strict=True))
    every = stride(len(points))
    parts = [points[at : at + every] for at in range(0, len(points), every)]
    return (
        [part[-1][0] for part in parts],
        [scale * sum(row[1] for row in part) / len(part) for part in parts],
        [scale * min(row[2] for row in part) for part in parts],
        [scale * max(row[3] for row in part) for part in parts],
    )


def cost(costs: Mapping[str, Cost], looks: Looks) -> Chart:
    """Seconds of a step: sampling, then the update."""
    x = axis(
        "seconds a step: sampling pale, update full",
        (each.sample_s + each.update_s for each in costs.values()),
        low=0,
    )
    chart = Chart("time of a step", x, names(costs, looks))
    for row, (label, each) in enumerate(costs.items()):
        ink = looks[label].colour
        chart.bar(row, 0, each.sample_s, ink, 0.45)
        chart.bar(row, each.sample_s, each.sample_s + each.update_s, ink)
    return chart


def shares(title: str, xname: str, by_label: Mapping[str, Sequence[float]], looks: Looks) -> Chart:
    """Shares of the kept tokens by equal parts of the response or of all tokens' entropy."""
    bins = len(next(iter(by_label.values())))
    values = [100 * value for each in by_label.values() for value in each]
    y = axis("of the kept, %", [*values, 100 / bins], low=0)
    chart = Chart(title, axis(xname, (), 0, 100), y)
    chart.rule(y=100 / bins)
    for label, each in by_label.items():
        points = [(100 * (at + 0.5) / bins, 100 * value) for at, value in enumerate(each)]
        chart.line(points, looks[label])
    return chart


def regimes(places: Mapping[str, Places], looks: Looks) -> Chart:
    x = axis("of the kept, %: R_H full, R_L pale", (), 0, 100)
    chart = Chart("by regime", x, names(places, looks))
    for row, (label, each) in enumerate(places.items()):
        chart.bar(row, 0, 100 * each.regime_high, looks[label].colour)
        chart.bar(row, 100 * (1 - each.regime_low), 100, looks[label].colour, 0.35)
    return chart


FORK_KEYS = {
    "own": Key("the method at its own share", "currentColor", CIRCLE),
    "random_at_own": Key("as many random tokens", SOFT, CROSS),
}
"""By field of a ForkComparison."""


def forks(
    which: Literal["recall", "precision"], compared: Sequence[ForkComparison], looks: Looks
) -> Chart:
    chart = Chart(
        which, axis(f"{which}, %", (), -3, 103), names((each.method for each in compared), looks)
    )
    for row, each in enumerate(compared):
        for name, key in FORK_KEYS.items():
            colour = SOFT if key.colour == SOFT else looks[each.method].colour
            chart.mark(100 * getattr(getattr(each, name), which), row, key.mark, colour)
    return chart


def uniqueness(curve: UniquenessCurve) -> Chart:
    x = axis("tokens, highest u first, %", (), 0, 100)
    chart = Chart("sorted uniqueness", x, axis("uniqueness u, nats", curve.value, low=0))
    points = [(100 * share, value) for share, value in zip(curve.share, curve.value, strict=True)]
    chart.curve(points, "currentColor")
    return chart


def probe(
    which: Literal["pearson", "error"],
    title: str,
    probes: Mapping[str, Probe],
    looks: Looks,
    claimed: float,
) -> Chart:
    """Means with their band over runs; what the paper claims is the dashed line."""

    def points(each: Any, name: str) -> list[tuple[float, float]]:
        return list(zip(each.step, getattr(each, name), strict=True))

    edges = (f"{which}_low", f"{which}_high")
    values = [v for each in probes.values() for name in edges for v in getattr(each, name)]
    steps = [step for each in probes.values() for step in each.step]
    y = axis("", [*values, claimed], low=0 if which == "error" else None)
    chart = Chart(title, axis("step", steps), y)
    chart.rule(y=claimed)
    for label, each in probes.items():
        if each.runs > 1:
            chart.band(points(each, edges[0]), points(each, edges[1]), looks[label])
        chart.line(points(each, which), looks[label])
    return chart


def kind_keys(kinds: Sequence[str]) -> list[Key]:
    """The kinds, full to pale as they are drawn in each method's own colour."""
    ink = "color-mix(in oklab, currentColor {:.0f}%, transparent)"
    return [Key(kind, ink.format(100 * PALE[kind]), SQUARE) for kind in kinds]


def gradient(found: Mapping[str, Attribution], kinds: Sequence[str], looks: Looks) -> Chart:
    """Shares by kind: made likelier to the right of 0, less likely to the left."""
    bars: list[tuple[int, float, float, str, float]] = []
    for row, (label, each) in enumerate(found.items()):
        for sign in (1, -1):
            start = 0.0
            for kind in kinds:
                share = each.share(kind, raised=sign > 0)
                end = start + sign * 100 * (share.share.value if share else 0.0)
                bars.append((row, start, end, looks[label].colour, PALE[kind]))
                start = end
    x = axis("of the gradient, %: less likely | likelier", [end for _, _, end, *_ in bars])
    chart = Chart("shares of the gradient", x, names(found, looks))
    for bar in bars:
        chart.bar(*bar)
    chart.rule(x=0)
    return chart


def towards_right(found: Mapping[str, Attribution], looks: Looks) -> list[Chart]:
    """The net share towards right choices, if it is known."""
    known = {label: each.towards_right for label, each in found.items() if each.towards_right}
    if not known:
        return []
    values = [0.0, *(100 * value for value in ends(known.values()))]
    x = axis("towards right choices, points of the gradient", values)
    chart = Chart("towards right choices", x, names(known, looks))
    chart.rule(x=0)
    for row, (label, each) in enumerate(known.items()):
        chart.interval(row, each, looks[label])
    return [chart]


def lost(losses: Mapping[str, LostUniqueness], looks: Looks) -> Chart:
    values = [v for each in losses.values() for v in ends((each.before, each.after))]
    x = axis("mean uniqueness u, nats", values, low=min(0.0, *values))
    chart = Chart("uniqueness before and after a loss", x, names(losses, looks))
    for row, (label, each) in enumerate(losses.items()):
        chart.interval(row, each.before, looks[label], 1, hollow=True)
        chart.interval(row, each.after, looks[label], 1)
    return chart


def forests(comparison: Comparison, looks: Looks) -> list[Chart]:
    return [
        forest(metric, rows, comparison.baseline, looks)
        for metric, rows in comparison.differences.items()
        if rows
    ]


def forests_from_stopped(comparison: Comparison, looks: Looks) -> list[Chart]:
    families = comparison.differences_from_stopped
    return [forest(metric, rows, STOPPED, looks) for metric, rows in families.items()]


def place_charts(places: Mapping[str, Places], looks: Looks) -> list[Chart]:
    position = {label: each.position for label, each in places.items()}
    entropy = {label: each.entropy for label, each in places.items()}
    return [
        shares("by position", "place in the response, %", position, looks),
        shares("by entropy", "entropy quantile of all tokens, %", entropy, looks),
        regimes(places, looks),
    ]


def probe_charts(probes: Mapping[str, Probe], looks: Looks) -> list[Chart]:
    return [
        probe("pearson", "Pearson's r", probes, looks, PEARSON_ABOVE),
        probe("error", "mean absolute error", probes, looks, ERROR_BELOW),
    ]

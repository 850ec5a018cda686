"""The figures of the report: charts of a comparison."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from operator import attrgetter
from typing import Literal

from ictcli.algorithm.attribution import KINDS
from ictcli.compare.comparison import CURVES, Cost, Curve, Probe
from ictcli.compare.efficiency import CORRECT, Efficiency
from ictcli.compare.entropy_claims import ERROR_BELOW, PEARSON_ABOVE
from ictcli.compare.gradients import Attribution
from ictcli.compare.report import drawing
from ictcli.compare.report.drawing import Axis, Chart, Style, Styles, axis, short
from ictcli.compare.shared_rollouts import ForkComparison, Places, UniquenessCurve
from ictcli.compare.statistics import PairedDifference
from ictcli.tables import Span

STEPS = 160
"""Points of a curve at most; longer ones are drawn as means of as many steps as that takes."""
SOFT = "var(--soft)"
PALE = dict(zip(KINDS, (1.0, 0.72, 0.42, 0.18), strict=True))
"""Opacity of each kind of token in a bar."""
Series = tuple[Sequence[float], Sequence[float], Sequence[float], Sequence[float]]
"""Steps, or what was spent by then, and the mean, the smallest and the largest of several runs."""


def names(labels: Iterable[str], styles: Styles) -> list[str]:
    return [styles[label].label for label in labels]


def ends(figures: Iterable[Span]) -> Iterator[float]:
    """Every end of intervals, and the figures within."""
    for each in figures:
        yield from (v for v in (each.value, each.low, each.high) if v is not None)


def intervals(title: str, xname: str, rows: Mapping[str, Span], styles: Styles) -> Chart:
    """Shares as points from 0, with their intervals; hollow where not significant."""
    x = axis(xname, [0.0, *(100 * value for value in ends(rows.values()))])
    chart = Chart(title, x, names(rows, styles))
    chart.rule(x=0)
    for row, (label, each) in enumerate(rows.items()):
        chart.interval(row, each, styles[label], hollow=not getattr(each, "differs", True))
    return chart


def forests(
    families: Mapping[str, Mapping[str, PairedDifference]],
    baseline: str,
    styles: Styles,
    title: str = "",
) -> list[Chart]:
    """Differences from the baseline, a chart for each metric of a family that has some."""
    return [
        intervals(title or metric, f"points of {metric} above {short(baseline)}", rows, styles)
        for metric, rows in families.items()
        if rows
    ]


def pass_curves(passk: Mapping[str, Mapping[int, float]], styles: Styles) -> Chart:
    ks = sorted({k for values in passk.values() for k in values})
    powers = [(math.log2(k), str(k)) for k in ks if k & (k - 1) == 0]
    x = Axis("k, on a log axis", -0.1, math.log2(ks[-1]) + 0.1, powers)
    y = axis("pass@k, %", (100 * v for values in passk.values() for v in values.values()))
    chart = Chart("pass@k against k", x, y)
    for label, values in passk.items():
        chart.line([(math.log2(k), 100 * v) for k, v in values.items()], styles[label], 8)
    return chart


def banded(
    title: str,
    series: Mapping[str, Series],
    styles: Styles,
    low: float | None = None,
    claimed: Sequence[float] = (),
    xname: str = "step",
) -> Chart:
    """A line a variant with its band from the smallest to the largest run. What the paper claims,
    or a threshold, is a dashed line."""
    values = [v for _, _, *edges in series.values() for edge in edges for v in edge]
    steps = [step for step, *_ in series.values() for step in step]
    chart = Chart(title, axis(xname, steps), axis("", [*values, *claimed], low))
    for value in claimed:
        chart.rule(y=value)
    for label, (step, mean, *edges) in series.items():
        if edges != [mean, mean]:
            bottom, top = (list(zip(step, edge, strict=True)) for edge in edges)
            chart.band(bottom, top, styles[label])
    for label, (step, mean, *_) in series.items():
        chart.line(list(zip(step, mean, strict=True)), styles[label])
    return chart


def curves(drawn: Mapping[str, Mapping[str, Curve]], styles: Styles) -> list[Chart]:
    charts: list[Chart] = []
    for name, rows in drawn.items():
        scale, low = 100 if name == "share_kept" else 1, name in ("share_kept", "length")
        series = {label: thinned(each, scale) for label, each in rows.items()}
        charts.append(banded(CURVES[name][0], series, styles, 0.0 if low else None))
    return charts


def spending(found: Efficiency, styles: Styles) -> list[Chart]:
    """Accuracy against what was spent, in each unit; the threshold is of `correct`."""
    charts: list[Chart] = []
    for (name, rows), unit in product(found.curves.items(), found.units):
        series = {label: thinned(each, 100, unit) for label, each in rows.items()}
        threshold = [100 * found.threshold] if found.threshold and name == CORRECT else ()
        title = f"{name.removeprefix('eval/')}, %, by {unit}"
        charts.append(banded(title, series, styles, claimed=threshold, xname=unit))
    return charts


def stride(steps: int) -> int:
    """Steps of a curve that one drawn point stands for."""
    return max(1, -(-steps // STEPS))


def thinned(curve: Curve, scale: float = 1, unit: str = "") -> Series:
    """A curve in at most STEPS points: the last step, or what was spent in a unit by its end, the
    mean, the smallest and the largest of each stretch."""
    places = curve.spent[unit] if unit else curve.step
    points = list(zip(places, curve.mean, curve.low, curve.high, strict=True))
    every = stride(len(points))
    parts = [points[at : at + every] for at in range(0, len(points), every)]
    return (
        [part[-1][0] for part in parts],
        [scale * sum(row[1] for row in part) / len(part) for part in parts],
        [scale * min(row[2] for row in part) for part in parts],
        [scale * max(row[3] for row in part) for part in parts],
    )


def probes(probes: Mapping[str, Probe], styles: Styles) -> list[Chart]:
    def series(name: str) -> dict[str, Series]:
        edges = attrgetter("step", name, f"{name}_low", f"{name}_high")
        return {label: edges(each) for label, each in probes.items()}

    return [
        banded("Pearson's r", series("pearson"), styles, claimed=[PEARSON_ABOVE]),
        banded("mean absolute error", series("error"), styles, 0, [ERROR_BELOW]),
    ]


def cost(costs: Mapping[str, Cost], styles: Styles) -> Chart:
    whole = [each.sample_s + each.update_s for each in costs.values()]
    x = axis("seconds a step: sampling pale, update full", whole, low=0)
    chart = Chart("time of a step", x, names(costs, styles))
    for row, (label, each) in enumerate(costs.items()):
        chart.bar(row, 0, each.sample_s, styles[label].colour, 0.45)
        chart.bar(row, each.sample_s, whole[row], styles[label].colour)
    return chart


def shares(
    title: str, xname: str, by_label: Mapping[str, Sequence[float]], styles: Styles
) -> Chart:
    """Shares of the kept tokens by equal parts of the response or of all tokens' entropy."""
    bins = len(next(iter(by_label.values())))
    values = [100 * value for each in by_label.values() for value in each]
    y = axis("of the kept, %", [*values, 100 / bins], low=0)
    chart = Chart(title, axis(xname, (), 0, 100), y)
    chart.rule(y=100 / bins)
    for label, each in by_label.items():
        points = [(100 * (at + 0.5) / bins, 100 * value) for at, value in enumerate(each)]
        chart.line(points, styles[label])
    return chart


def places(places: Mapping[str, Places], styles: Styles) -> list[Chart]:
    """Kept tokens by position, by entropy and by regime."""
    position = {label: each.position for label, each in places.items()}
    entropy = {label: each.entropy for label, each in places.items()}
    x = axis("of the kept, %: R_H full, R_L pale", (), 0, 100)
    regimes = Chart("by regime", x, names(places, styles))
    for row, (label, each) in enumerate(places.items()):
        regimes.bar(row, 0, 100 * each.regime_high, styles[label].colour)
        regimes.bar(row, 100 * (1 - each.regime_low), 100, styles[label].colour, 0.35)
    return [
        shares("by position", "place in the response, %", position, styles),
        shares("by entropy", "entropy quantile of all tokens, %", entropy, styles),
        regimes,
    ]


FORK_KEYS = {
    "own": Style("the method at its own share", "currentColor", drawing.CIRCLE),
    "random_at_own": Style("as many random tokens", SOFT, drawing.CROSS),
}


def forks(
    which: Literal["recall", "precision"], compared: Sequence[ForkComparison], styles: Styles
) -> Chart:
    rows = names((each.method for each in compared), styles)
    chart = Chart(which, axis(f"{which}, %", (), -3, 103), rows)
    for row, each in enumerate(compared):
        for name, key in FORK_KEYS.items():
            colour = SOFT if key.colour == SOFT else styles[each.method].colour
            chart.mark(100 * getattr(getattr(each, name), which), row, key.mark, colour)
    return chart


def uniqueness(curve: UniquenessCurve) -> Chart:
    x = axis("tokens, highest u first, %", (), 0, 100)
    chart = Chart("sorted uniqueness", x, axis("uniqueness u, nats", curve.value, low=0))
    points = [(100 * share, value) for share, value in zip(curve.share, curve.value, strict=True)]
    chart.curve(points, "currentColor")
    return chart


def kind_keys(kinds: Sequence[str]) -> list[Style]:
    """The kinds, full to pale as they are drawn in each method's own colour."""
    ink = "color-mix(in oklab, currentColor {:.0f}%, transparent)"
    return [Style(kind, ink.format(100 * PALE[kind]), drawing.SQUARE) for kind in kinds]


def gradient(found: Mapping[str, Attribution], kinds: Sequence[str], styles: Styles) -> list[Chart]:
    """Shares by kind: made likelier to the right of 0, less likely to the left; and the net share
    towards right choices, if it is known."""
    bars: list[tuple[int, float, float, str, float]] = []
    for row, ((label, each), sign) in enumerate(product(found.items(), (1, -1))):
        end = 0.0
        for kind in kinds:
            share = each.share(kind, raised=sign > 0)
            start, end = end, end + sign * 100 * (share.share.value if share else 0.0)
            bars.append((row // 2, start, end, styles[label].colour, PALE[kind]))
    x = axis("of the gradient, %: less likely | likelier", [end for _, _, end, *_ in bars])
    chart = Chart("shares of the gradient", x, names(found, styles))
    for bar in bars:
        chart.bar(*bar)
    chart.rule(x=0)
    known = {label: each.towards_right for label, each in found.items() if each.towards_right}
    xname = "towards right choices, points of the gradient"
    return [chart, intervals("towards right choices", xname, known, styles)] if known else [chart]


def lost(found: Mapping[str, Attribution], styles: Styles) -> Chart:
    losses = {label: each.uniqueness for label, each in found.items() if each.uniqueness}
    values = [v for each in losses.values() for v in ends((each.before, each.after))]
    x = axis("mean uniqueness u, nats", values, low=min(0.0, *values))
    chart = Chart("uniqueness before and after a loss", x, names(losses, styles))
    for row, (label, each) in enumerate(losses.items()):
        chart.interval(row, each.before, styles[label], 1, hollow=True)
        chart.interval(row, each.after, styles[label], 1)
    return chart

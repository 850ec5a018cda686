"""The figures of the report: charts of a comparison."""

from collections.abc import Mapping, Sequence

from ictcli.compare.comparison import CURVES, Comparison, Curve
from ictcli.compare.report.drawing import DOT, Chart, Styles, axis
from ictcli.compare.report.tables import DifferenceRow, difference_rows

STEPS = 160
"""Largest number of points of a curve; in longer curves each point averages several steps."""
Series = tuple[Sequence[int], Sequence[float], Sequence[float], Sequence[float]]
"""Steps, and the mean, smallest and largest value of several runs at each step."""


def forests(c: Comparison, styles: Styles) -> list[Chart]:
    """Return a chart of the differences of each metric: a mark with its interval, filled if
    significant, and a dot for each seed."""
    by_metric = {name: [row for row in difference_rows(c) if row.metric == name]
                 for name in c.differences}  # fmt: skip
    return [_forest(metric, rows, styles) for metric, rows in by_metric.items() if rows]


def _forest(title: str, rows: Sequence[DifferenceRow], styles: Styles) -> Chart:
    ends = [(d.value, d.low, d.high, *d.by_seed) for _, _, d in rows]
    x = axis("points", [0.0, *(100 * v for row in ends for v in row if v is not None)])
    chart = Chart(title, x, [contrast.text for _, contrast, _ in rows])
    chart.rule(x=0)
    for place, (_, contrast, difference) in enumerate(rows):
        style = styles[contrast.variant]
        for value in difference.by_seed if difference.seeds > 1 else ():
            chart.mark(100 * value, place + 0.3, DOT, style.colour)
        chart.interval(place, difference, style, hollow=not difference.differs)
    return chart


def curves(drawn: Mapping[str, Mapping[str, Curve]], styles: Styles) -> list[Chart]:
    """Return a chart for each metric: a line per variant, and a band from its smallest to its
    largest run."""
    charts: list[Chart] = []
    for name, rows in drawn.items():
        scale, low = 100 if name == "share_kept" else 1, name in ("share_kept", "length")
        series = {label: thinned(curve, scale) for label, curve in rows.items()}
        values = [v for _, _, *edges in series.values() for edge in edges for v in edge]
        steps = [step for step, *_ in series.values() for step in step]
        across, up = axis("step", steps), axis("", values, 0.0 if low else None)
        charts.append(chart := Chart(CURVES[name], across, up))
        for label, (step, _, *edges) in series.items():
            bottom, top = (list(zip(step, edge, strict=True)) for edge in edges)
            chart.band(bottom, top, styles[label])
        for label, (step, mean, *_) in series.items():
            chart.line(list(zip(step, mean, strict=True)), styles[label])
    return charts


def stride(steps: int) -> int:
    """Return how many steps of a curve one drawn point covers."""
    return max(1, -(-steps // STEPS))


def thinned(curve: Curve, scale: float = 1) -> Series:
    """Return a curve of at most STEPS points. Each point covers `stride` steps: the last of them,
    and the mean, smallest and largest value over them."""
    points = list(zip(curve.step, curve.mean, curve.low, curve.high, strict=True))
    every = stride(len(points))
    parts = [points[at : at + every] for at in range(0, len(points), every)]
    return (
        [part[-1][0] for part in parts],
        [scale * sum(row[1] for row in part) / len(part) for part in parts],
        [scale * min(row[2] for row in part) for part in parts],
        [scale * max(row[3] for row in part) for part in parts],
    )

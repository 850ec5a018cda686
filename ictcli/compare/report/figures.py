"""The figures of the report."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from ictcli.compare.comparison import CURVES, Cost, Curve, Probe
from ictcli.compare.report.document import Key, Panel
from ictcli.compare.report.drawing import HEAT, HEIGHT, INK, SOFT, WIDTH, Axes, draw, short
from ictcli.compare.report.palette import MARKS, Look, Looks
from ictcli.compare.shared_rollouts import ForkComparison, Overlap, Places, UniquenessCurve
from ictcli.compare.statistics import PairedDifference
from ictcli.text import visible

STEPS = 160
"""Points of a curve at most; longer ones are drawn as means of as many steps as that takes."""


def panel(title: str, paint: Callable[[Axes], None], height: float = HEIGHT) -> Panel:
    return Panel(title, lambda name: draw(name, title, paint, height))


def row_height(rows: int) -> float:
    return 56 + 25 * rows


def rows_axis(ax: Axes, labels: Iterable[str], looks: Looks) -> None:
    """A row a variant, the first on top."""
    names = [short(looks[label].label) for label in labels]
    ax.set_yticks(range(len(names)), names, color=INK)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(False, axis="y")
    ax.spines["left"].set_visible(False)


def line(ax: Axes, look: Look, x: Sequence[float], y: Sequence[float], marks: int = 5) -> None:
    """A variant's line, with `marks` marks that do not fall on those of the next variant."""
    every = max(1, len(x) // marks)
    ax.plot(
        x,
        y,
        color=look.ink,
        marker=look.mark,
        markevery=(look.slot * max(1, every // 5) % every, every),
        linestyle=(0, look.dashes) if look.dashes else "-",
        dash_capstyle="butt",
    )


def band(
    ax: Axes, look: Look, x: Sequence[float], low: Sequence[float], high: Sequence[float]
) -> None:
    ax.fill_between(x, low, high, color=look.ink, alpha=0.15, linewidth=0)


def forest(
    metric: str,
    differences: Mapping[str, PairedDifference],
    baseline: str,
    looks: Looks,
    title: str = "",
) -> Panel:
    """Differences with their intervals; filled where told from 0."""

    def paint(ax: Axes) -> None:
        for row, (label, each) in enumerate(differences.items()):
            look = looks[label]
            if each.low is not None and each.high is not None:
                ends = [100 * each.low, 100 * each.high]
                ax.plot(ends, [row, row], color=look.ink, linewidth=2)
            style = {"color": look.ink, "mfc": look.ink if each.differs else "none"}
            ax.plot(100 * each.value, row, look.mark, markersize=8, **style)
        ax.axvline(0, color=SOFT, linewidth=1)
        rows_axis(ax, differences, looks)
        ax.set_xlabel(f"points of {metric} above {short(visible(baseline))}")
        ax.margins(x=0.08)

    return panel(title or metric, paint, row_height(len(differences)))


def pass_curves(passk: Mapping[str, Mapping[int, float]], looks: Looks) -> Panel:
    def paint(ax: Axes) -> None:
        for label, values in passk.items():
            line(ax, looks[label], list(values), [100 * value for value in values.values()], 8)
        powers = sorted({k for values in passk.values() for k in values if k & (k - 1) == 0})
        ax.set_xscale("log", base=2)
        ax.set_xticks(powers, [str(k) for k in powers])
        ax.set_xlabel("k, on a log axis")
        ax.set_ylabel("pass@k, %")

    return panel("pass@k against k", paint)


def curve(name: str, curves: Mapping[str, Curve], looks: Looks) -> Panel:
    """A curve a variant with its band from the smallest to the largest seed."""
    scale = 100 if name == "share_kept" else 1

    def paint(ax: Axes) -> None:
        for label, each in curves.items():
            step, mean, low, high = thinned(each)
            if (low, high) != (mean, mean):
                edges = [scale * v for v in low], [scale * v for v in high]
                band(ax, looks[label], step, *edges)
            line(ax, looks[label], step, [scale * v for v in mean])
        ax.set_xlabel("step")
        if name in ("share_kept", "length"):
            ax.set_ylim(bottom=0)

    return panel(CURVES[name][0], paint)


def stride(steps: int) -> int:
    """Steps of a curve that one drawn point stands for."""
    return max(1, -(-steps // STEPS))


def thinned(curve: Curve) -> tuple[list[float], list[float], list[float], list[float]]:
    """Step, mean, low and high of a curve in at most STEPS points: the last step, the mean, the
    smallest and the largest of each stretch."""
    points = list(zip(curve.step, curve.mean, curve.low, curve.high, strict=True))
    every = stride(len(points))
    parts = [points[at : at + every] for at in range(0, len(points), every)]
    return (
        [part[-1][0] for part in parts],
        [sum(row[1] for row in part) / len(part) for part in parts],
        [min(row[2] for row in part) for part in parts],
        [max(row[3] for row in part) for part in parts],
    )


def cost(costs: Mapping[str, Cost], looks: Looks) -> Panel:
    """Seconds of a step: sampling, then the update."""

    def paint(ax: Axes) -> None:
        for row, (label, each) in enumerate(costs.items()):
            ink = looks[label].ink
            ax.barh(row, each.sample_s, 0.58, color=ink, alpha=0.45)
            ax.barh(row, each.update_s, 0.58, left=each.sample_s, color=ink)
        rows_axis(ax, costs, looks)
        ax.set_xlabel("seconds a step: sampling pale, update full")

    return panel("time of a step", paint, max(row_height(len(costs)), HEIGHT / 2))


def shares(
    title: str, xlabel: str, by_label: Mapping[str, Sequence[float]], bins: int, looks: Looks
) -> Panel:
    """Shares of the kept tokens by equal parts of the response or of all tokens' entropy."""

    def paint(ax: Axes) -> None:
        middles = [100 * (part + 0.5) / bins for part in range(bins)]
        for label, values in by_label.items():
            line(ax, looks[label], middles, [100 * value for value in values])
        ax.axhline(100 / bins, color=SOFT, linewidth=1, linestyle=(0, (2, 2)))
        ax.set_xlim(0, 100)
        ax.set_ylim(bottom=0)
        ax.set_xlabel(xlabel)
        ax.set_ylabel("of the kept, %")

    return panel(title, paint)


def regimes(places: Mapping[str, Places], looks: Looks) -> Panel:
    def paint(ax: Axes) -> None:
        for row, (label, each) in enumerate(places.items()):
            ink, left = looks[label].ink, 100 * (1 - each.regime_low)
            ax.barh(row, 100 * each.regime_high, 0.58, color=ink)
            ax.barh(row, 100 * each.regime_low, 0.58, left=left, color=ink, alpha=0.35)
        rows_axis(ax, places, looks)
        ax.set_xlim(0, 100)
        ax.set_xlabel("of the kept, %: R_H full, R_L pale")

    return panel("by regime", paint, max(row_height(len(places)), 150))


def overlap(shared: Overlap, looks: Looks) -> Panel:
    size = len(shared.labels)

    def paint(ax: Axes) -> None:
        for row, values in enumerate(shared.jaccard):
            for column, value in enumerate(values):
                ax.bar(column, 0.94, 0.94, row - 0.47, color=HEAT, alpha=0.04 + 0.66 * value)
                text = {"ha": "center", "va": "center", "color": INK}
                ax.text(column, row, f"{value:.2f}", fontsize=10.5 if size < 7 else 8, **text)
        rows_axis(ax, shared.labels, looks)
        ax.set_ylim(size - 0.5, -0.5)
        ax.set_xlim(-0.5, size - 0.5)
        ax.grid(False)
        ax.spines[:].set_visible(False)
        slant = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if size > 3 else {}
        names = [short(looks[label].label) for label in shared.labels]
        ax.set_xticks(range(size), names, color=INK, **slant)
        ax.tick_params(length=0)

    return panel("overlap", paint, min(WIDTH, 110 + 34 * size))


FORK_MARKS = {
    "own": ("o", "the method at its own share"),
    "random_at_own": ("X", "as many random tokens"),
}
"""By field of a ForkComparison."""


def fork_keys() -> list[Key]:
    return [Key(text, "currentColor", None, MARKS[mark]) for mark, text in FORK_MARKS.values()]


def forks(
    which: Literal["recall", "precision"], compared: Sequence[ForkComparison], looks: Looks
) -> Panel:
    def paint(ax: Axes) -> None:
        for row, each in enumerate(compared):
            for name, (mark, _) in FORK_MARKS.items():
                color = SOFT if mark == "X" else looks[each.method].ink
                style = {"color": color, "markersize": 7 if mark == "X" else 8}
                ax.plot(100 * getattr(getattr(each, name), which), row, mark, **style)
        rows_axis(ax, [each.method for each in compared], looks)
        ax.grid(True, axis="y")
        ax.set_xlim(-3, 103)
        ax.set_xlabel(f"{which}, %")

    return panel(which, paint, row_height(len(compared)))


def uniqueness(curve: UniquenessCurve) -> Panel:
    def paint(ax: Axes) -> None:
        ax.plot([100 * share for share in curve.share], curve.value, color=INK)
        ax.set_xlim(0, 100)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("tokens, highest u first, %")
        ax.set_ylabel("uniqueness u, nats")

    return panel("sorted uniqueness", paint)


def probe(
    which: Literal["pearson", "error"],
    title: str,
    probes: Mapping[str, Probe],
    looks: Looks,
    claimed: float,
) -> Panel:
    """Means with their band over runs; what the paper claims is the dashed line."""

    def paint(ax: Axes) -> None:
        for label, each in probes.items():
            if each.runs > 1:
                edges = getattr(each, f"{which}_low"), getattr(each, f"{which}_high")
                band(ax, looks[label], each.step, *edges)
            line(ax, looks[label], each.step, getattr(each, which))
        ax.axhline(claimed, color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
        ax.set_xlabel("step")
        if which == "error":
            ax.set_ylim(bottom=0)

    return panel(title, paint)

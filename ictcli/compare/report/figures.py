"""The figures of what was reached: differences, pass@k, and the curves of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ictcli.compare.report.document import Panel
from ictcli.compare.report.drawing import HEIGHT, INK, SOFT, Axes, draw, short
from ictcli.compare.report.palette import Look, Looks

STEPS = 160
"""Points of a curve at most; longer ones are drawn as means of as many steps as that takes."""
CURVES = {
    "reward": "mean reward",
    "entropy": "H1: Shannon entropy, nats",
    "renyi2": "H2: Rényi-2 entropy, nats",
    "share_kept": "tokens trained, %",
    "length": "response length, tokens",
    "grad_norm": "gradient norm",
}


def row_height(rows: int) -> float:
    return 56 + 25 * rows


def rows_axis(ax: Axes, labels: Sequence[str]) -> None:
    """A row a label, the first on top."""
    ax.set_yticks(range(len(labels)), [short(label) for label in labels], color=INK)
    ax.set_ylim(len(labels) - 0.4, -0.6)
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


def forest(metric: str, found: Mapping[str, Any], baseline: str, looks: Looks) -> Panel:
    """Differences with their intervals; filled where told from 0."""
    labels = list(found)

    def paint(ax: Axes) -> None:
        for row, label in enumerate(labels):
            one, look = found[label], looks[label]
            if one["low"] is not None and one["high"] is not None:
                ends = [100 * one["low"], 100 * one["high"]]
                ax.plot(ends, [row, row], color=look.ink, linewidth=2)
            fill = look.ink if told(one) else "none"
            ax.plot(100 * one["value"], row, look.mark, color=look.ink, markersize=8, mfc=fill)
        ax.axvline(0, color=SOFT, linewidth=1)
        rows_axis(ax, [looks[label].label for label in labels])
        ax.set_xlabel(f"points of {metric} above {short(looks[baseline].label)}")
        ax.margins(x=0.08)

    return Panel(metric, lambda name: draw(name, metric, paint, row_height(len(labels))))


def told(one: Mapping[str, Any]) -> bool:
    """Whether a difference is told from 0 at 5 %, as PairedDifference.differs has it."""
    p = one["p"] if one["p_holm"] is None else one["p_holm"]
    return one["seeds"] > 1 and p is not None and p <= 0.05


def pass_curves(passk: Mapping[str, Mapping[str, float]], looks: Looks) -> Panel:
    def paint(ax: Axes) -> None:
        ks: list[int] = []
        for label, values in passk.items():
            known = sorted((int(k), v) for k, v in values.items() if k.isdigit())
            if known:
                ks = sorted({*ks, *(k for k, _ in known)})
                line(ax, looks[label], [k for k, _ in known], [100 * v for _, v in known], 8)
        ax.set_xscale("log", base=2)
        powers = [k for k in ks if k & (k - 1) == 0]
        ax.set_xticks(powers, [str(k) for k in powers])
        ax.set_xlabel("k, on a log axis")
        ax.set_ylabel("pass@k, %")

    title = "pass@k against k"
    return Panel(title, lambda name: draw(name, title, paint))


def curve(name: str, found: Mapping[str, Mapping[str, Any]], looks: Looks) -> Panel:
    """A curve a variant with its band from the smallest to the largest seed."""
    scale = 100 if name == "share_kept" else 1

    def paint(ax: Axes) -> None:
        for label, one in found.items():
            step, mean, low, high = thinned(one)
            look = looks[label]
            if (low, high) != (mean, mean):
                edges = [scale * v for v in low], [scale * v for v in high]
                ax.fill_between(step, *edges, color=look.ink, alpha=0.15, linewidth=0)
            line(ax, look, step, [scale * v for v in mean])
        ax.set_xlabel("step")
        if name in ("share_kept", "length"):
            ax.set_ylim(bottom=0)

    title = CURVES[name]
    return Panel(title, lambda place: draw(place, title, paint))


def stride(found: Mapping[str, Mapping[str, Any]]) -> int:
    """How many steps a point of the longest curve stands for."""
    return max((-(-len(one["step"]) // STEPS) for one in found.values()), default=1)


def thinned(one: Mapping[str, Any]) -> tuple[list[float], list[float], list[float], list[float]]:
    """Step, mean, low and high of a curve in at most STEPS points: the last step, the mean, the
    smallest and the largest of each stretch. Steps without a value are left out."""
    columns = zip(one["step"], one["mean"], one["low"], one["high"], strict=True)
    known = [row for row in columns if None not in row]
    every = max(1, -(-len(known) // STEPS))
    parts = [known[at : at + every] for at in range(0, len(known), every)]
    return (
        [part[-1][0] for part in parts],
        [sum(row[1] for row in part) / len(part) for part in parts],
        [min(row[2] for row in part) for part in parts],
        [max(row[3] for row in part) for part in parts],
    )


def cost(found: Mapping[str, Mapping[str, Any]], looks: Looks) -> Panel:
    """Seconds of a step: sampling, then the update."""
    labels = list(found)

    def paint(ax: Axes) -> None:
        for row, label in enumerate(labels):
            one, look = found[label], looks[label]
            sample, update = one["sample_s"] or 0.0, one["update_s"] or 0.0
            ax.barh(row, sample, 0.58, color=look.ink, alpha=0.45)
            ax.barh(row, update, 0.58, left=sample, color=look.ink)
        rows_axis(ax, [looks[label].label for label in labels])
        ax.set_xlabel("seconds a step: sampling pale, update full")

    title = "time of a step"
    return Panel(
        title, lambda name: draw(name, title, paint, max(row_height(len(labels)), HEIGHT / 2))
    )

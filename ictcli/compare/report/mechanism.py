"""The figures of what the methods choose, on the same rollouts of the model before training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ictcli.compare.report.document import Key, Panel
from ictcli.compare.report.drawing import HEAT, INK, SOFT, WIDTH, Axes, draw, short
from ictcli.compare.report.figures import line, row_height, rows_axis
from ictcli.compare.report.palette import MARKS, Looks


def places(which: str, xlabel: str, found: Mapping[str, Mapping[str, Any]], looks: Looks) -> Panel:
    """Shares of the kept tokens by equal parts of the response or of all tokens' entropy."""

    def paint(ax: Axes) -> None:
        for label, one in found.items():
            shares = one[which]
            middles = [100 * (part + 0.5) / len(shares) for part in range(len(shares))]
            line(ax, looks[label], middles, [100 * share for share in shares])
        bins = len(next(iter(found.values()))[which])
        ax.axhline(100 / bins, color=SOFT, linewidth=1, linestyle=(0, (2, 2)))
        ax.set_xlim(0, 100)
        ax.set_ylim(bottom=0)
        ax.set_xlabel(xlabel)
        ax.set_ylabel("of the kept, %")

    title = f"by {which}"
    return Panel(title, lambda name: draw(name, title, paint))


def regimes(found: Mapping[str, Mapping[str, Any]], looks: Looks) -> Panel:
    labels = list(found)

    def paint(ax: Axes) -> None:
        for row, label in enumerate(labels):
            one, ink = found[label], looks[label].ink
            ax.barh(row, 100 * one["regime_high"], 0.58, color=ink)
            left = 100 * (1 - one["regime_low"])
            ax.barh(row, 100 * one["regime_low"], 0.58, left=left, color=ink, alpha=0.35)
        rows_axis(ax, [looks[label].label for label in labels])
        ax.set_xlim(0, 100)
        ax.set_xlabel("of the kept, %: R_H full, R_L pale")

    title = "by regime"
    return Panel(title, lambda name: draw(name, title, paint, max(row_height(len(labels)), 150)))


def overlap(labels: Sequence[str], jaccard: Sequence[Sequence[float]], looks: Looks) -> Panel:
    names = [looks[label].label for label in labels]
    size = len(names)

    def paint(ax: Axes) -> None:
        for row in range(size):
            for column in range(size):
                value = jaccard[row][column]
                ax.bar(column, 0.94, 0.94, row - 0.47, color=HEAT, alpha=0.04 + 0.66 * value)
                text = {"ha": "center", "va": "center", "color": INK}
                ax.text(column, row, f"{value:.2f}", fontsize=10.5 if size < 7 else 8, **text)
        rows_axis(ax, names)
        ax.set_ylim(size - 0.5, -0.5)
        ax.set_xlim(-0.5, size - 0.5)
        ax.grid(False)
        ax.spines[:].set_visible(False)
        slant = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if size > 3 else {}
        ax.set_xticks(range(size), [short(name) for name in names], color=INK, **slant)
        ax.tick_params(length=0)

    title = "overlap"
    return Panel(title, lambda name: draw(name, title, paint, min(WIDTH, 110 + 34 * size)))


FORK_MARKS = (("own", "o", True), ("random_at_own", "X", False), ("equal", "D", False))


def fork_keys() -> list[Key]:
    texts = (
        "the method at its own share",
        "as many random tokens",
        "the method at the equal share",
    )
    return [
        Key(text, "currentColor", None, MARKS[mark], not filled and mark == "D")
        for text, (_, mark, filled) in zip(texts, FORK_MARKS, strict=True)
    ]


def forks(which: str, found: Sequence[Mapping[str, Any]], looks: Looks) -> Panel:
    def paint(ax: Axes) -> None:
        for row, one in enumerate(found):
            ink = looks[one["method"]].ink
            for name, mark, filled in FORK_MARKS:
                if one[name] is not None:
                    color = SOFT if name == "random_at_own" else ink
                    face = color if filled or mark == "X" else "none"
                    style = {"color": color, "mfc": face, "markersize": 8 if mark != "X" else 7}
                    ax.plot(100 * one[name][which], row, mark, **style)
        rows_axis(ax, [looks[one["method"]].label for one in found])
        ax.grid(True, axis="y")
        ax.set_xlim(-3, 103)
        ax.set_xlabel(f"{which}, %")

    return Panel(which, lambda name: draw(name, which, paint, row_height(len(found))))


def uniqueness(found: Mapping[str, Any]) -> Panel:
    def paint(ax: Axes) -> None:
        ax.plot([100 * share for share in found["share"]], found["value"], color=INK)
        elbow = found.get("elbow")
        if elbow:
            ax.plot(100 * elbow["share"], elbow["value"], "o", color=HEAT, markersize=7)
            told = f"elbow: {100 * elbow['share']:.1f} %"
            place = {"xytext": (9, 6), "textcoords": "offset points", "color": INK}
            ax.annotate(told, (100 * elbow["share"], elbow["value"]), **place)
        ax.set_xlim(0, 100)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("tokens, highest u first, %")
        ax.set_ylabel("uniqueness u, nats")

    title = "sorted uniqueness"
    return Panel(title, lambda name: draw(name, title, paint))


def probe(
    which: str, title: str, found: Mapping[str, Mapping[str, Any]], looks: Looks, claimed: float
) -> Panel:
    """Means with their band over runs; what the paper claims is the dashed line."""

    def paint(ax: Axes) -> None:
        for label, one in found.items():
            if one["runs"] > 1:
                edges = one[f"{which}_low"], one[f"{which}_high"]
                ink = looks[label].ink
                ax.fill_between(one["step"], *edges, color=ink, alpha=0.15, linewidth=0)
            line(ax, looks[label], one["step"], one[which])
        ax.axhline(claimed, color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
        ax.set_xlabel("step")
        if which == "error":
            ax.set_ylim(bottom=0)

    drawn: Callable[[str], str] = lambda name: draw(name, title, paint)  # noqa: E731
    return Panel(title, drawn)

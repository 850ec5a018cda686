"""The figures of where the gradient goes."""

from collections.abc import Mapping, Sequence

from ictcli.algorithm.attribution import KINDS
from ictcli.compare.gradients import Attribution, LostUniqueness
from ictcli.compare.report.document import Key, Panel
from ictcli.compare.report.drawing import SOFT, Axes
from ictcli.compare.report.figures import panel, row_height, rows_axis
from ictcli.compare.report.palette import MARKS, Look, Looks
from ictcli.compare.statistics import SeedMean

PALE = (1.0, 0.72, 0.42, 0.18)
"""Opacity of each kind of token in a bar."""


def kind_keys(kinds: Sequence[str]) -> list[Key]:
    """The kinds, full to pale as they are drawn in each method's own colour."""
    opacity = dict(zip(KINDS, PALE, strict=True))
    ink = "color-mix(in oklab, currentColor {:.0f}%, transparent)"
    return [Key(kind, ink.format(100 * opacity[kind]), None, MARKS["s"]) for kind in kinds]


def shares(found: Mapping[str, Attribution], kinds: Sequence[str], looks: Looks) -> Panel:
    """Shares by kind: made likelier to the right of 0, less likely to the left."""
    opacity = dict(zip(KINDS, PALE, strict=True))

    def paint(ax: Axes) -> None:
        for row, (label, each) in enumerate(found.items()):
            for sign in (1, -1):
                left = 0.0
                for kind in kinds:
                    share = each.share(kind, raised=sign > 0)
                    width = sign * 100 * share.share.value if share else 0.0
                    ink = {"color": looks[label].ink, "alpha": opacity[kind]}
                    ax.barh(row, width, 0.58, left=left, linewidth=0, **ink)
                    left += width
        ax.axvline(0, color=SOFT, linewidth=1)
        rows_axis(ax, found, looks)
        ax.set_xlabel("of the gradient, %: less likely | likelier")

    return panel("shares of the gradient", paint, row_height(len(found)))


def towards_right(found: Mapping[str, Attribution], looks: Looks) -> Panel:
    """The net share towards right choices."""

    def paint(ax: Axes) -> None:
        for row, (label, each) in enumerate(found.items()):
            if each.towards_right:
                _interval_mark(ax, looks[label], row, each.towards_right)
        ax.axvline(0, color=SOFT, linewidth=1)
        rows_axis(ax, found, looks)
        ax.set_xlabel("towards right choices, points of the gradient")

    return panel("towards right choices", paint, row_height(len(found)))


def _interval_mark(
    ax: Axes, look: Look, row: int, mean: SeedMean, scale: float = 100, *, hollow: bool = False
) -> None:
    if mean.low is not None and mean.high is not None:
        ax.plot([scale * mean.low, scale * mean.high], [row, row], color=look.ink, linewidth=2)
    face = "none" if hollow else look.ink
    ax.plot(scale * mean.value, row, look.mark, markersize=8, color=look.ink, mfc=face)


def uniqueness_when_lost(losses: Mapping[str, LostUniqueness], looks: Looks) -> Panel:
    def paint(ax: Axes) -> None:
        for row, (label, each) in enumerate(losses.items()):
            _interval_mark(ax, looks[label], row, each.before, 1, hollow=True)
            _interval_mark(ax, looks[label], row, each.after, 1)
        rows_axis(ax, losses, looks)
        ax.set_xlim(left=0)
        ax.set_xlabel("mean uniqueness u, nats")

    return panel("uniqueness before and after a loss", paint, row_height(len(losses)))

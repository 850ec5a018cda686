"""Charts as paths and labels, which blocks.html.jinja writes as SVG, and the variants' colours.

A method has the same colour in every figure. The hues are those of Okabe and Ito
(https://jfly.uni-koeln.de/color), which people with common kinds of colour blindness can
distinguish, made darker on white and lighter on black. Variants of one method share its hue, in
different shades; so do methods if there are more of them than hues. Variants also differ in marks.

Charts are 360 units wide, so that a unit is about a pixel on a phone. report.css styles the paths.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ictcli.compare.comparison import VariantRecord
from ictcli.compare.statistics import BEFORE
from ictcli.tables import Span
from ictcli.tables.numbers import MINUS

HUES = 8
"""Number of hues, `--m0`, `--m1`, ... in report.css."""
CIRCLE, SQUARE, CROSS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.5-3.5h7v7h-7z",
    "M-4-2.6-2.6-4 0-1.4 2.6-4 4-2.6 1.4 0 4 2.6 2.6 4 0 1.4-2.6 4-4 2.6-1.4 0z",
)
DOT = "M-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0z"
"""The mark of a single seed's value."""
MARKS = (
    *(CIRCLE, SQUARE, "M0-4.2 4.3 3.8H-4.3z", "M0-4.6 4.6 0 0 5-4.4 0z", "M0 4.2 4.3-3.8H-4.3z"),
    *("M-1.5-4h3v2.5H4v3h-2.5V4h-3V1.5H-4v-3h2.5z", CROSS, "M0-4.4 4.3-1.2 2.6 4H-2.6L-4.3-1.2z"),
)
DEPTHS = (100, 62, 80, 45, 30)
"""Percentage of a hue in each of its shades; the rest is the text colour."""


@dataclass(frozen=True)
class Style:
    """The colour and mark of a variant, or of the model before training."""

    label: str
    colour: str
    mark: str
    slot: int = 0
    """Position among the variants, from 0."""


Styles = Mapping[str, Style]


def styles_of(variants: Sequence[VariantRecord]) -> tuple[Styles, list[tuple[str, str]]]:
    """Return the styles by label, including the model before training, and their CSS variables."""
    methods = dict.fromkeys(variant.method for variant in variants)
    hues = {name: place % HUES for place, name in enumerate(methods)}
    styles: dict[str, Style] = {}
    css: list[tuple[str, str]] = []
    seen: dict[int, int] = {}
    for slot, variant in enumerate(variants):
        place = hues[variant.method]
        rank = seen[place] = seen.get(place, -1) + 1
        mark = MARKS[(place + 3 * rank) % len(MARKS)]
        styles[variant.label] = Style(variant.label, f"var(--v{slot})", mark, slot)
        hue, depth = f"var(--m{place})", DEPTHS[rank % len(DEPTHS)]
        mixed = f"color-mix(in oklab, {hue} {depth}%, var(--ink))"
        css.append((f"--v{slot}", hue if depth == 100 else mixed))
    slot = len(variants)
    styles[BEFORE] = Style("before training", f"var(--v{slot})", CIRCLE, slot)
    css.append((f"--v{slot}", "var(--soft)"))
    return styles, css


WIDTH, HEIGHT = 360, 232
TOP, RIGHT, BOTTOM, GAP = 8, 14, 40, 6
LETTER = 6.2
"""Approximate width of a letter, in units."""
MOST = 6
LONGEST = 24
"""Longest label in a chart, in characters; tables and legends do not shorten labels."""
MARKED = 5
Points = Sequence[tuple[float, float]]


def short(label: str) -> str:
    return label if len(label) <= LONGEST else label[: LONGEST - 1] + "…"


@dataclass(frozen=True)
class Axis:
    """The name of an axis, the values at its ends, and its ticks."""

    name: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]


def axis(name: str, values: Iterable[float], low: float | None = None) -> Axis:
    """Return an axis that covers all values, starting at `low` if it is given."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    least, most = min(finite), max(finite)
    room = 0.06 * (most - least) or 0.06 * abs(most) or 1.0
    start, end = least - room if low is None else low, most + room
    return Axis(name, start, end, round_ticks(start, end))


def round_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return ticks (value, text) at round values from `low` to `high`, MOST + 1 at most."""
    power = math.floor(math.log10((high - low) / MOST))
    steps = (times * 10.0**power for times in (1, 2, 5, 10))
    step = next(step for step in steps if (high - low) / step <= MOST)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [(n * step, f"{n * step:,.{decimals}f}".replace("-", MINUS)) for n in places]


@dataclass(frozen=True)
class Path:
    """An SVG path: its class in report.css, its colour, and its origin."""

    kind: str
    d: str
    colour: str = ""
    opacity: float = 1.0
    at: tuple[float, float] | None = None


@dataclass(frozen=True)
class Label:
    x: float
    y: float
    text: str
    kind: str = ""
    anchor: str = "middle"


@dataclass
class Chart:
    """A chart: values on the x axis, values or named rows on y. Later paths cover earlier ones."""

    title: str
    x: Axis
    y: Axis | Sequence[str]
    paths: list[Path] = field(default_factory=list[Path])
    labels: list[Label] = field(default_factory=list[Label])
    lines: list[Style] = field(default_factory=list[Style])
    """The styles of the variants that have a line, for the legend."""

    def __post_init__(self) -> None:
        rows = [] if isinstance(self.y, Axis) else [short(label) for label in self.y]
        self.height = 16 + BOTTOM + 25 * len(rows) if rows else HEIGHT
        texts = rows if not isinstance(self.y, Axis) else [text for _, text in self.y.ticks]
        self.left = 6 + GAP + LETTER * max(map(len, texts), default=0)
        self.end, self.floor = WIDTH - RIGHT, self.height - BOTTOM
        for value, text in self.x.ticks:
            self.rule(x=value, kind="grid")
            self.labels.append(Label(self.across(value), self.floor + 14, text, "soft"))
        self.labels.append(Label((self.left + self.end) / 2, self.height - 8, self.x.name, "soft"))
        if isinstance(self.y, Axis):
            for value, text in self.y.ticks:
                self.rule(y=value, kind="grid")
                place = self.down(value) + 4
                self.labels.append(Label(self.left - GAP, place, text, "soft", "end"))
        for row, text in enumerate(rows):
            self.labels.append(Label(self.left - GAP, self.down(row) + 4, text, anchor="end"))

    def across(self, value: float) -> float:
        share = (value - self.x.low) / (self.x.high - self.x.low)
        return self.left + share * (self.end - self.left)

    def down(self, value: float) -> float:
        """Return the vertical position of a value, or of the middle of a row."""
        if isinstance(self.y, Axis):
            share = (value - self.y.low) / (self.y.high - self.y.low)
            return self.floor - share * (self.floor - TOP)
        return TOP + (value + 0.5) * (self.floor - TOP) / len(self.y)

    def place(self, points: Points) -> str:
        return " ".join(f"{self.across(x):.1f} {self.down(y):.1f}" for x, y in points)

    def line(self, points: Points, style: Style) -> None:
        """Draw the line of a variant, its marks shifted so as not to cover the next variant's."""
        self.lines.append(style)
        self.curve(points, style.colour)
        every = max(1, len(points) // MARKED)
        for x, y in points[style.slot * max(1, every // 5) % every :: every]:
            self.mark(x, y, style.mark, style.colour)

    def curve(self, points: Points, colour: str) -> None:
        self.paths.append(Path("line", f"M{self.place(points)}", colour))

    def band(self, low: Points, high: Points, style: Style) -> None:
        edge = self.place([*low, *reversed(high)])
        self.paths.append(Path("fill", f"M{edge}z", style.colour, 0.15))

    def mark(self, x: float, y: float, mark: str, colour: str, *, hollow: bool = False) -> None:
        place = round(self.across(x), 1), round(self.down(y), 1)
        self.paths.append(Path("hollow" if hollow else "mark", mark, colour, at=place))

    def interval(self, row: int, share: Span, style: Style, *, hollow: bool) -> None:
        """Draw a share as a mark, in percentage points, and its interval as a line."""
        if share.low is not None and share.high is not None:
            self.curve([(100 * share.low, row), (100 * share.high, row)], style.colour)
        self.mark(100 * share.value, row, style.mark, style.colour, hollow=hollow)

    def rule(self, x: float | None = None, y: float | None = None, kind: str = "rule") -> None:
        d = f"M{self.left:.1f} {self.down(y):.1f}H{self.end}" if y is not None else ""
        d = f"M{self.across(x):.1f} {TOP}V{self.floor:.1f}" if x is not None else d
        self.paths.append(Path(kind, d))

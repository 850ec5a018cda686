"""The colours and marks of a comparison: a method has the same ones in every figure.

The hues are Okabe and Ito's (https://jfly.uni-koeln.de/color), which people with every common kind
of colour blindness tell apart, made darker on white and lighter on black; dashes and marks say the
same again. Settings of one method share its hue and differ in depth, dashes and mark, and so do
methods where there are more of them than hues.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ictcli.compare.comparison import VariantRecord
from ictcli.compare.report.document import Cell, Column, Key, ReportTable, Row
from ictcli.compare.statistics import BEFORE
from ictcli.text import visible

HUES = 8
"""How many `--m0` ... stand in report.css."""
FIRST = ("ict", "grpo", "random", "entropy20", "stapo", "frequent", "kl", "wasserstein")
"""Methods that have the same hue in every report, in the order of the hues."""
MARKS = {
    "o": "M9 5a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "s": "M9.5 1.5h7v7h-7z",
    "^": "M13 .8 17.3 8.8H8.7z",
    "D": "M13 .4 17.6 5 13 9.6 8.4 5z",
    "v": "M13 9.2 17.3 1.2H8.7z",
    "P": "M11.5 1h3v2.5H17v3h-2.5V9h-3V6.5H9v-3h2.5z",
    "X": "M9 2.4 10.4 1 13 3.6 15.6 1 17 2.4 14.4 5 17 7.6 15.6 9 13 6.4 10.4 9 9 7.6 11.6 5z",
    "p": "M13 .6 17.3 3.8 15.6 9H10.4L8.7 3.8z",
}
"""matplotlib's names of the marks, and their shape in a box of 26 by 10."""
DASHES = ((), (5, 2), (1.5, 1.5), (7, 2, 1.5, 2), (3, 1.5))
DEPTHS = (100, 62, 80, 45, 30)
"""Percent of the hue, the rest ink."""


@dataclass(frozen=True)
class Look:
    """How a variant is drawn; `slot` stands for the CSS variable `--v<slot>`."""

    label: str
    slot: int
    mark: str
    dashes: tuple[float, ...]

    @property
    def ink(self) -> str:
        """The colour to draw in, which `drawing` replaces by the variable."""
        return f"#fe{self.slot:02x}01"

    def key(self) -> Key:
        dashes = " ".join(f"{1.5 * part:g}" for part in self.dashes)
        return Key(self.label, f"var(--v{self.slot})", dashes, MARKS[self.mark])


Looks = dict[str, Look]


def method_table(
    name: str,
    caption: str,
    looks: Looks,
    columns: Sequence[Column[Row]],
    rows: Mapping[str, Row],
    note: str = "",
) -> ReportTable:
    """A table with a row for each variant, which its first column names."""

    def first(label: str) -> Cell:
        look = looks[label]
        return Cell(look.label, (look.label,), f"var(--v{look.slot})")

    cells = [[first(label), *(each.cell(row) for each in columns)] for label, row in rows.items()]
    method = Column("method", first, ("method",), is_text=True)
    return ReportTable(name, caption, [method, *columns], cells, note)


def looks_of(variants: Sequence[VariantRecord]) -> tuple[Looks, list[tuple[str, str]]]:
    """By label how each variant is drawn, the model before training included, and the CSS."""
    methods = list(dict.fromkeys(variant.method for variant in variants))
    hues = {name: place for place, name in enumerate(FIRST) if name in methods}
    free = [hue for hue in range(HUES) if hue not in hues.values()]
    for place, name in enumerate([name for name in methods if name not in hues]):
        hues[name] = free[place % len(free)] if free else place % HUES
    looks: Looks = {}
    css: list[tuple[str, str]] = []
    seen: dict[int, int] = {}
    marks = list(MARKS)
    for slot, variant in enumerate(variants):
        place = hues[variant.method]
        rank = seen[place] = seen.get(place, -1) + 1
        mark = marks[(place + 3 * rank) % len(marks)]
        look = Look(visible(variant.label), slot, mark, DASHES[rank % len(DASHES)])
        looks[variant.label] = look
        hue, depth = f"var(--m{place})", DEPTHS[rank % len(DEPTHS)]
        mixed = f"color-mix(in oklab, {hue} {depth}%, var(--ink))"
        css.append((f"--v{slot}", hue if depth == 100 else mixed))
    looks[BEFORE] = Look("before training", len(variants), "o", (1.5, 1.5))
    css.append((f"--v{len(variants)}", "var(--soft)"))
    return looks, css

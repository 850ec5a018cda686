"""The colours and marks of a comparison: a method has the same ones in every figure.

The hues are Okabe and Ito's (https://jfly.uni-koeln.de/color), which people with every common kind
of colour blindness tell apart, made darker on white and lighter on black; dashes and marks say the
same again. Settings of one method share its hue and differ in depth, dashes and mark, and so do
methods where there are more of them than hues.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ictcli.compare.comparison import VariantRecord
from ictcli.compare.statistics import BEFORE
from ictcli.text import visible

HUES = 8
"""How many `--m0` ... stand in report.css."""
FIRST = ("ict", "grpo", "random", "entropy20", "stapo", "frequent", "kl", "wasserstein")
"""Methods that have the same hue in every report, in the order of the hues."""
CIRCLE, SQUARE, CROSS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.5-3.5h7v7h-7z",
    "M-4-2.6-2.6-4 0-1.4 2.6-4 4-2.6 1.4 0 4 2.6 2.6 4 0 1.4-2.6 4-4 2.6-1.4 0z",
)
MARKS = (
    *(CIRCLE, SQUARE, "M0-4.2 4.3 3.8H-4.3z", "M0-4.6 4.6 0 0 5-4.4 0z", "M0 4.2 4.3-3.8H-4.3z"),
    *("M-1.5-4h3v2.5H4v3h-2.5V4h-3V1.5H-4v-3h2.5z", CROSS, "M0-4.4 4.3-1.2 2.6 4H-2.6L-4.3-1.2z"),
)
"""Shapes about 0, 0."""
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
    def colour(self) -> str:
        return f"var(--v{self.slot})"


@dataclass(frozen=True)
class Key:
    """An entry of a figure's legend: a variant's line and mark, or a mark alone."""

    label: str
    colour: str
    mark: str
    dashes: tuple[float, ...] | None = None


Looks = Mapping[str, Look]


def keys_of(looks: Looks, labels: Sequence[str]) -> list[Key]:
    """The legend of lines of these variants."""
    known = (looks[label] for label in labels)
    return [Key(look.label, look.colour, look.mark, look.dashes) for look in known]


def looks_of(variants: Sequence[VariantRecord]) -> tuple[Looks, list[tuple[str, str]]]:
    """By label how each variant is drawn, the model before training included, and the CSS."""
    methods = list(dict.fromkeys(variant.method for variant in variants))
    hues = {name: place for place, name in enumerate(FIRST) if name in methods}
    free = [hue for hue in range(HUES) if hue not in hues.values()]
    for place, name in enumerate([name for name in methods if name not in hues]):
        hues[name] = free[place % len(free)] if free else place % HUES
    looks: dict[str, Look] = {}
    css: list[tuple[str, str]] = []
    seen: dict[int, int] = {}
    for slot, variant in enumerate(variants):
        place = hues[variant.method]
        rank = seen[place] = seen.get(place, -1) + 1
        mark = MARKS[(place + 3 * rank) % len(MARKS)]
        look = Look(visible(variant.label), slot, mark, DASHES[rank % len(DASHES)])
        looks[variant.label] = look
        hue, depth = f"var(--m{place})", DEPTHS[rank % len(DEPTHS)]
        mixed = f"color-mix(in oklab, {hue} {depth}%, var(--ink))"
        css.append((f"--v{slot}", hue if depth == 100 else mixed))
    looks[BEFORE] = Look("before training", len(variants), CIRCLE, (1.5, 1.5))
    css.append((f"--v{len(variants)}", "var(--soft)"))
    return looks, css

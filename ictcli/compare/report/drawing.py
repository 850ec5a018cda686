"""matplotlib's SVG, made part of the page: it takes the page's font, ink and colours.

Drawings are 360 units wide, so that on a phone a unit is a pixel and text stays readable; a figure
of several drawings flows beside or below one another.
"""

import io
import logging
import re
import warnings
from collections.abc import Callable
from typing import Any, cast

import matplotlib
from matplotlib.figure import Figure

from ictcli.text import BREAKS, html_text, visible

WIDTH, HEIGHT = 360, 232
INK, SOFT, LINE, HEAT = "#fd0001", "#fd0101", "#fd0201", "#fd0301"
"""Colours that stand for those of the page."""
PAGE = {INK: "currentColor", SOFT: "var(--soft)", LINE: "var(--line)", HEAT: "var(--heat)"}
LONGEST = 24
"""Characters of a label in a drawing; tables and legends have it whole."""

Axes = Any
_settings: Any = cast(Any, matplotlib).rc_context
SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "text.usetex": False,
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.unicode_minus": True,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelsize": 10.5,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "lines.linewidth": 1.7,
    "lines.markersize": 4.5,
    "lines.solid_capstyle": "round",
    "path.simplify": True,
    "path.simplify_threshold": 0.2,
}


def draw(name: str, title: str, paint: Callable[[Axes], None], height: float = HEIGHT) -> str:
    """An inline <svg> of what `paint` puts on the axes; `name` is unique in the page."""
    with _settings({**SETTINGS, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glyphs that matplotlib's font lacks, the page's may have
        log = logging.getLogger("matplotlib")
        level = log.level
        log.setLevel(logging.ERROR)
        try:
            drawn = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
            paint(drawn.subplots())  # pyright: ignore[reportUnknownMemberType]
            file = io.StringIO()
            drawn.savefig(file, format="svg", transparent=True, metadata={"Date": None})  # pyright: ignore[reportUnknownMemberType]
        finally:
            log.setLevel(level)
    return _inline(visible(file.getvalue(), BREAKS), name, title)


def short(label: str) -> str:
    return label if len(label) <= LONGEST else label[: LONGEST - 1] + "…"


def _inline(svg: str, name: str, title: str) -> str:
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", svg, flags=re.S)
    svg = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None
    body = svg[svg.index(">") + 1 :]
    used = set(re.findall(r'(?:xlink:href="#|url\(#)([^")]+)', body))
    body = re.sub(r"<[^>]*>", lambda tag: _tag(tag[0], name, used), body)
    body = re.sub(r">\s+<", "><", body)
    body = body.replace("<defs></defs>", "")
    while re.search(r"<g></g>", body):
        body = body.replace("<g></g>", "")
    return f'<svg {box[0]} role="img" aria-label="{html_text(title)}">{body.strip()}\n'


def _tag(tag: str, name: str, used: set[str]) -> str:
    """A tag with short numbers, the page's colours and font, and ids of this drawing alone."""

    def identified(match: re.Match[str]) -> str:
        return f' id="{name}-{match[1]}"' if match[1] in used else ""

    tag = re.sub(r' id="([^"]*)"', identified, tag)
    tag = tag.replace('xlink:href="#', f'href="#{name}-').replace("url(#", f"url(#{name}-")
    tag = re.sub(r"(?<=\d)\s+(?=[A-Za-z])|\s+", " ", tag)
    tag = re.sub(r" ?font-family: [^;\"]*;?", "", tag)
    tag = re.sub(r'style="[^"]*"|-?\d+\.\d{2,}', _shortened, tag)
    for stand_in, colour in PAGE.items():
        tag = tag.replace(stand_in, colour)
    return re.sub(r"#fe(\w\w)01", lambda match: f"var(--v{int(match[1], 16)})", tag)


def _shortened(match: re.Match[str]) -> str:
    """A tenth of a unit is enough for a place; what a style says stays."""
    return match[0] if match[0].startswith("style") else f"{float(match[0]):.1f}".removesuffix(".0")

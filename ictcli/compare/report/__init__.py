"""A comparison as two files to read, made from one template.

| report.html | self-contained: no network, no other file; phone, print, light and dark |
| report.md | the same in Markdown tables, without figures |

| module | holds |
|---|---|
| `comparison.jinja` (with `tokens`, `efficiency`), `study.jinja` | what a report says, by section |
| `page`, `blocks` | how that is written in HTML and in Markdown |
| `tables`, `token_tables` | its tables, which the terminal shows too |
| `figures`, `drawing` | its charts, and how charts are drawn |
| `words` | verdicts, counts and ranges for its sentences |
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ictcli.algorithm.attribution import SURE
from ictcli.compare.comparison import CURVES, Comparison
from ictcli.compare.crossed import LEVEL
from ictcli.compare.efficiency import LEAST_ERRORS, LEAST_GAIN
from ictcli.compare.entropy_claims import ERROR_BELOW, PEARSON_ABOVE
from ictcli.compare.report import figures, made_tables, tables, token_tables, words
from ictcli.compare.report.drawing import looks_of
from ictcli.compare.statistics import BEFORE, MARGIN, RESAMPLES
from ictcli.compare.variants import STOPPED
from ictcli.files import write_text
from ictcli.tables.numbers import ABSENT, listed
from ictcli.tables.pages import render, sentence

HERE = Path(__file__).parent
Kind = Literal["html", "md"]
KINDS: tuple[Kind, Kind] = ("html", "md")
GIVEN = {
    "tables": tables,
    "made": made_tables,
    "tokens": token_tables,
    "figures": figures,
    "words": words,
    "ABSENT": ABSENT,
    "BEFORE": BEFORE,
    "CURVES": CURVES,
    "SURE": SURE,
    "LEAST_ERRORS": LEAST_ERRORS,
    "LEAST_GAIN": LEAST_GAIN,
    "LEVEL": LEVEL,
    "MARGIN": MARGIN,
    "RESAMPLES": RESAMPLES,
    "PEARSON_ABOVE": PEARSON_ABOVE,
    "ERROR_BELOW": ERROR_BELOW,
    "STOPPED": STOPPED,
}
"""Modules that templates take tables and charts from, and constants they name."""


def write_report(comparison: Comparison, folder: Path) -> list[Path]:
    """Write report.html and report.md into `folder`; their paths, in that order."""
    return write_pages(folder, partial(comparison_page, comparison))


def comparison_page(comparison: Comparison, kind: Kind) -> str:
    looks, colours = looks_of(comparison.variants)
    methods = list(dict.fromkeys(variant.method for variant in comparison.variants))
    return page(
        "comparison.jinja",
        kind,
        title=f"Does it matter which tokens are trained? {listed(methods)} on {comparison.task}",
        c=comparison,
        looks=looks,
        colours=colours,
    )


def lead(comparison: Comparison) -> str:
    """What a comparison found, in a few sentences."""
    return sentence(HERE / "lead.jinja", c=comparison, **GIVEN)


def page(template: str, kind: Kind, **values: Any) -> str:
    """A template of this folder."""
    sections: list[tuple[str, str]] = []
    text = render(HERE / template, kind, sections=sections, **GIVEN, **values)
    return re.sub(r"\n{3,}", "\n\n", text) if kind == "md" else text


def write_pages(folder: Path, page_of: Callable[[Kind], str]) -> list[Path]:
    paths: dict[Kind, Path] = {kind: folder / f"report.{kind}" for kind in KINDS}
    for kind, path in paths.items():
        write_text(path, page_of(kind))
    return list(paths.values())

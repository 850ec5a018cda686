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

from ictcli.algorithm import attribution
from ictcli.compare import comparison, crossed, efficiency, entropy_claims, statistics, variants
from ictcli.compare.comparison import Comparison
from ictcli.compare.report import figures, made_tables, tables, token_tables, words
from ictcli.compare.report.drawing import styles_of
from ictcli.files import write_text
from ictcli.tables import numbers
from ictcli.tables.numbers import listed
from ictcli.tables.pages import render, sentence

HERE = Path(__file__).parent
Kind = Literal["html", "md"]
KINDS: tuple[Kind, Kind] = ("html", "md")
MODULES = (
    *(attribution, comparison, crossed, efficiency, entropy_claims, statistics, variants),
    *(figures, made_tables, numbers, tables, token_tables, words),
)
GIVEN = {module.__name__.rpartition(".")[2]: module for module in MODULES}
"""Modules that templates take tables, charts and constants from, by name."""


def write_report(result: Comparison, folder: Path) -> None:
    """Write report.html and report.md into `folder`."""
    write_pages(folder, partial(comparison_page, result))


def comparison_page(result: Comparison, kind: Kind) -> str:
    styles, colours = styles_of(result.variants)
    methods = list(dict.fromkeys(variant.method for variant in result.variants))
    return page(
        "comparison.jinja",
        kind,
        title=f"Does it matter which tokens are trained? {listed(methods)} on {result.task}",
        c=result,
        styles=styles,
        colours=colours,
    )


def lead(result: Comparison) -> str:
    """What a comparison found, in a few sentences."""
    return sentence(HERE / "lead.jinja", c=result, **GIVEN)


def page(template: str, kind: Kind, **values: Any) -> str:
    """A template of this folder."""
    sections: list[tuple[str, str]] = []
    text = render(HERE / template, kind, sections=sections, **(GIVEN | values))
    return re.sub(r"\n{3,}", "\n\n", text) if kind == "md" else text


def write_pages(folder: Path, page_of: Callable[[Kind], str]) -> None:
    for kind in KINDS:
        write_text(folder / f"report.{kind}", page_of(kind))

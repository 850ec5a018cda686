"""A comparison as two files to read, made from one template.

| report.html | self-contained: no network, no other file; phone, print, light and dark |
| report.md | the same in Markdown tables, without figures |

| module | holds |
|---|---|
| `comparison.jinja` (with `tokens.jinja`), `study.jinja` | what a report says, by section |
| `page`, `blocks` | how that is written in HTML and in Markdown |
| `tables`, `token_tables`, `verdicts` | its tables, which the terminal shows too |
| `figures`, `drawing`, `palette` | its charts, how charts are drawn, colours and marks |
| `words` | counts, ranges and names for its sentences |
"""

import re
from pathlib import Path
from typing import Any, Literal

from ictcli.algorithm.attribution import SURE
from ictcli.compare.comparison import Comparison
from ictcli.compare.entropy_claims import ERROR_BELOW, PEARSON_ABOVE
from ictcli.compare.report import figures, tables, token_tables, verdicts, words
from ictcli.compare.report.palette import keys_of, looks_of
from ictcli.compare.statistics import RESAMPLES
from ictcli.files import write_text
from ictcli.tables.numbers import listed
from ictcli.tables.pages import render

HERE = Path(__file__).parent
Kind = Literal["html", "md"]
KINDS: tuple[Kind, Kind] = ("html", "md")


def write_report(comparison: Comparison, folder: Path) -> list[Path]:
    """Write report.html and report.md into `folder`; their paths, in that order."""
    html, text = (comparison_page(comparison, kind) for kind in KINDS)
    return write_pages(folder, html, text)


def comparison_page(comparison: Comparison, kind: Kind) -> str:
    looks, colours = looks_of(comparison.variants)
    methods = list(dict.fromkeys(variant.method for variant in comparison.variants))
    return page(
        "comparison.jinja",
        kind,
        title=f"Does it matter which tokens are trained? {listed(methods)} on {comparison.task}",
        facts=words.facts(comparison),
        c=comparison,
        looks=looks,
        colours=colours,
        base=looks[comparison.baseline].label,
        differences=words.compared(comparison),
    )


def page(template: str, kind: Kind, **values: Any) -> str:
    """A template of this folder, with the modules that it takes tables and charts from."""
    modules = {
        "tables": tables,
        "tokens": token_tables,
        "verdicts": verdicts,
        "figures": figures,
        "words": words,
    }
    constants = {
        "SURE": SURE,
        "RESAMPLES": RESAMPLES,
        "PEARSON_ABOVE": PEARSON_ABOVE,
        "ERROR_BELOW": ERROR_BELOW,
    }
    sections: list[tuple[str, str]] = []
    text = render(
        HERE / template,
        kind,
        keys_of=keys_of,
        sections=sections,
        **modules,
        **constants,
        **values,
    )
    return re.sub(r"\n{3,}", "\n\n", text) if kind == "md" else text


def write_pages(folder: Path, html: str, text: str) -> list[Path]:
    paths = [folder / "report.html", folder / "report.md"]
    write_text(paths[0], html)
    write_text(paths[1], text)
    return paths

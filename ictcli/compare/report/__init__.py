"""A comparison as two files to read, made from one template.

| report.html | self-contained: no network, no other file; phone, print, light and dark |
| report.md | the same in Markdown tables, without figures |

| module | holds |
|---|---|
| `comparison.jinja` | what a report says, by section |
| `page`, `blocks` | how that is written in HTML and in Markdown |
| `tables` | its tables, which the terminal shows too |
| `figures`, `drawing` | its charts, and how charts are drawn |
| `words` | the answer, and parts of sentences |
"""

import re
from pathlib import Path
from typing import Literal

from ictcli.compare.comparison import Comparison
from ictcli.compare.report import figures, tables, words
from ictcli.compare.report.drawing import styles_of
from ictcli.files import write_text
from ictcli.tables.numbers import listed
from ictcli.tables.pages import render

TEMPLATE = Path(__file__).with_name("comparison.jinja")


def write_report(c: Comparison, folder: Path) -> None:
    """Write report.html and report.md into `folder`."""
    for kind in ("html", "md"):
        write_text(folder / f"report.{kind}", page(c, kind))


def page(c: Comparison, kind: Literal["html", "md"]) -> str:
    styles, colours = styles_of(c.variants)
    methods = list(dict.fromkeys(variant.method for variant in c.variants))
    text = render(
        TEMPLATE,
        kind,
        sections=list[tuple[str, str]](),
        title=f"{listed(methods)} on {c.task}",
        c=c,
        styles=styles,
        colours=colours,
        figures=figures,
        tables=tables,
        words=words,
    )
    return re.sub(r"\n{3,}", "\n\n", text) if kind == "md" else text

"""Write the two report files of a comparison from one template.

| report.html | needs no network and no other file; for phones, print, light and dark mode |
| report.md | the same text and tables in Markdown, without figures |

| module | content |
|---|---|
| `comparison.jinja` | the text of a report, by section |
| `page`, `blocks` | macros that write it as HTML or as Markdown |
| `tables` | its tables, which the terminal shows too |
| `figures`, `drawing` | its charts, and how charts are drawn |
| `words` | sentences with results |
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

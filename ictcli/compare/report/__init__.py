"""A comparison as two files to read, both of them renderings of one document.

| report.html | self-contained: no network, no other file; phone, print, light and dark |
| report.md | the same in Markdown tables, without figures |
"""

from pathlib import Path

from ictcli.compare.comparison import Comparison
from ictcli.files import write_text


def write_report(comparison: Comparison, folder: Path) -> list[Path]:
    """Write report.html and report.md into `folder`; their paths, in that order. The plotting
    library is imported here, not before."""
    from ictcli.compare.report.contents import document
    from ictcli.compare.report.html import page
    from ictcli.compare.report.markdown import markdown

    report = document(comparison)
    html, text = folder / "report.html", folder / "report.md"
    write_text(html, page(report))
    write_text(text, markdown(report))
    return [html, text]

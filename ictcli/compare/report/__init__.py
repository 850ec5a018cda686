"""comparison.json as three files to read: a page, a text and the same numbers again.

| report.html | self-contained: no network, no other file; phone, print, light and dark |
| report.md | the same in Markdown tables, without figures |
| report.json | the dict itself |
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ictcli.files import encodable, write_text


def write_report(result: dict[str, Any], folder: Path) -> list[Path]:
    """Write report.html, report.md and report.json into `folder`; their paths, in that order.

    `result` is the dict of comparison.json, format 2. What it does not hold is left out with a
    sentence. The plotting library is imported here, not before.
    """
    from ictcli.compare.report.contents import document
    from ictcli.compare.report.html import page
    from ictcli.compare.report.markdown import markdown

    made = document(result)
    html, text, data = (folder / f"report.{end}" for end in ("html", "md", "json"))
    write_text(html, page(made))
    write_text(text, markdown(made))
    numbers = json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(data, encodable(numbers) + "\n")
    return [html, text, data]

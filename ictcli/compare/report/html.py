"""The report as one page: no network, no other file, every text escaped, readable without scripts.

`report.js` makes tables sort and download; it reads them from the page.
"""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from ictcli.compare.report import document as doc
from ictcli.text import BREAKS
from ictcli.text import html_text as escape

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
SIGNS = {"supported": "✓", "contradicted": "✗", "undecided": "?"}


def page(document: doc.Document) -> str:
    here = Path(__file__)
    figures, tables = count(1), count(1)
    links = "".join(f'<li><a href="#{s.name}">{escape(s.title)}</a>' for s in document.sections)
    facts = "".join(f"<div><dt>{escape(n)}<dd>{escape(t)}</div>" for n, t in document.facts)
    colours = "".join(f"{name}:{value};" for name, value in document.colours)
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(document.title)} - ictcli compare</title>",
        f"<style>\n{here.with_name('report.css').read_text(encoding='utf-8')}</style>",
        f"<style>body{{{colours}}}</style>",
        "</head>",
        "<body>",
        f"<header><p class=kicker>ictcli compare</p><h1>{escape(document.title)}</h1>",
        f"<p class=lead>{escape(document.lead)}</p><dl class=facts>{facts}</dl></header>",
        f'<nav aria-label="Contents"><ol>{links}</ol></nav>',
        "<main>",
        *(_section(section, figures, tables) for section in document.sections),
        "</main>",
        f"<script>\n{here.with_name('report.js').read_text(encoding='utf-8')}</script>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _section(section: doc.Section, figures: Iterator[int], tables: Iterator[int]) -> str:
    blocks = "\n".join(_block(block, figures, tables) for block in section.blocks)
    return f'<section id="{section.name}">\n<h2>{escape(section.title)}</h2>\n{blocks}\n</section>'


def _block(block: doc.Block, figures: Iterator[int], tables: Iterator[int]) -> str:
    match block:
        case doc.Text():
            kind = f' class="{block.kind}"' if block.kind else ""
            return f"<p{kind}>{escape(block.text)}</p>"
        case doc.Items():
            return f"<ul>{''.join(f'<li>{escape(item)}' for item in block.items)}</ul>"
        case doc.Code():
            text = escape(block.text, BREAKS)
            return f"<h3>{escape(block.title)}</h3>\n<pre><code>{text}</code></pre>"
        case doc.Claims():
            return f"<ul class=claims>{''.join(map(_claim, block.claims))}</ul>"
        case doc.Figure():
            return _figure(block, next(figures))
        case doc.ReportTable():
            return _table(block, next(tables))


def _claim(row: doc.ClaimRow) -> str:
    verdict = escape(row.verdict)
    return (
        f'<li class="{verdict}"><details><summary><span class=verdict>'
        f"<i aria-hidden=true>{SIGNS.get(row.verdict, '')}</i> {verdict}</span> "
        f"<span class=claim>{escape(row.name)}</span> "
        f"<span class=measured>{escape(row.measured)}</span></summary>"
        f"<p>{escape(row.sentence)}</p></details>"
    )


def _figure(figure: doc.Figure, number: int) -> str:
    panels = "\n".join(
        f"<div class=panel><p class=panel-title>{escape(panel.title)}</p>"
        f"{panel.draw(f'f{number}{chr(96 + place)}')}</div>"
        for place, panel in enumerate(figure.panels, 1)
    )
    keys = "".join(f"<li>{_swatch(key)}{escape(key.label)}" for key in figure.keys)
    legend = f"<ul class=legend>{keys}</ul>" if keys else ""
    return (
        f'<figure class=drawn id="figure-{escape(figure.name)}">{legend}'
        f"<div class=panels>{panels}</div><figcaption><b>Figure {number}.</b> "
        f"{escape(figure.caption)}</figcaption></figure>"
    )


def _swatch(key: doc.Key) -> str:
    """A piece of the line with its mark, as the figure draws it."""
    line = "" if key.dashes is None else f'<path d="M1 5H25" stroke-dasharray="{key.dashes}"/>'
    fill = ";fill:none" if key.hollow else ""
    mark = f'<path class=mark d="{key.mark}" style="{fill}"/>' if key.mark else ""
    return (
        '<svg class=swatch viewBox="0 0 26 10" aria-hidden=true '
        f'style="color:{key.colour}">{line}{mark}</svg>'
    )


def _table(table: doc.ReportTable, number: int) -> str:
    head = "".join(_head(column) for column in table.columns)
    rows = "\n".join(
        "<tr>"
        + "".join(
            _cell(cell, column, first=place == 0)
            for place, (cell, column) in enumerate(zip(row, table.columns, strict=True))
        )
        + "</tr>"
        for row in table.rows
    )
    name = escape(table.name)
    note = f"<p class=note>{escape(table.note)}</p>" if table.note else ""
    return (
        f'<figure class=table><figcaption id="table-{name}"><b>Table {number}.</b> '
        f"{escape(table.caption)} <span class=wide>↔ scrolls sideways</span></figcaption>"
        f'<div class=scroll role=region tabindex=0 aria-labelledby="table-{name}">'
        f'<table data-name="{name}" aria-labelledby="table-{name}"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table></div>{note}</figure>"
    )


def _head(column: doc.Column[Any]) -> str:
    kind = " class=t" if column.is_text else ""
    return f'<th scope=col{kind} data-n="{_json(column.names)}">{escape(column.title)}</th>'


def _cell(cell: doc.Cell, column: doc.Column[Any], *, first: bool) -> str:
    """The text, and the unrounded values that are sorted by and downloaded."""
    kind = " class=t" if column.is_text else ""
    dot = f'<i class=dot style="background:{cell.colour}"></i>' if cell.colour else ""
    under = f"<br><small>{escape(cell.under)}</small>" if cell.under else ""
    tag = "th scope=row" if first and column.is_text else "td"
    return f'<{tag}{kind} data-v="{_json(cell.values)}">{dot}{escape(cell.text)}{under}</{tag[:2]}>'


def _json(values: tuple[object, ...]) -> str:
    return escape(json.dumps(values, allow_nan=False))

"""Tables, declared once; numbers as text; and pages of templates.

| module | holds |
|---|---|
| `table` | `Table` and `Column`; as Markdown and CSV. On a terminal: `console.table` |
| `numbers` | figures, shares, intervals, sizes and counts as text |
| `pages` | templates: pages in HTML and Markdown, in which text of others stays text; sentences |
"""

from ictcli.tables.table import Cell, Column, Span, Table, markdown, score_columns, text_table

__all__ = ["Cell", "Column", "Span", "Table", "markdown", "score_columns", "text_table"]

"""The report in Markdown: the same sections and tables, without figures."""

from collections.abc import Sequence

from ictcli.compare.report import document as doc
from ictcli.text import markdown_block
from ictcli.text import markdown_text as plain


def markdown(document: doc.Document) -> str:
    """CommonMark with GitHub's tables; nothing of a label becomes markup."""
    parts = [f"# {plain(document.title)}", plain(document.lead)]
    parts.append("\n".join(f"- {plain(name)}: {plain(text)}" for name, text in document.facts))
    for section in document.sections:
        blocks = [_block(block) for block in section.blocks]
        parts += [f"## {plain(section.title)}", *(block for block in blocks if block)]
    return "\n\n".join(parts) + "\n"


def _block(block: doc.Block) -> str:
    match block:
        case doc.Text():
            return plain(block.text)
        case doc.Items():
            return "\n".join(f"- {plain(item)}" for item in block.items)
        case doc.Claims():
            return _claims(block)
        case doc.Code():
            return f"{plain(block.title)}:\n\n{markdown_block(block.text.rstrip())}"
        case doc.ReportTable():
            return _table(block)
        case doc.Figure():
            return ""


def _claims(block: doc.Claims) -> str:
    """A row a claim, and below them what each was judged by."""
    head = [_row(("verdict", "claim", "measured")), _row((":--", ":--", ":--"))]
    rows = [_row((c.verdict, plain(c.name), plain(c.measured))) for c in block.claims]
    lines = [f"- {plain(claim.name)}. {plain(claim.sentence)}" for claim in block.claims]
    return "\n".join([*head, *rows, "", "In full:", "", *lines])


def _table(table: doc.ReportTable) -> str:
    head = [plain(column.title) for column in table.columns]
    marks = [":--" if column.is_text else "--:" for column in table.columns]
    rows = [
        [plain(f"{cell.text} ({cell.under})" if cell.under else cell.text) for cell in row]
        for row in table.rows
    ]
    text = "\n".join(_row(cells) for cells in (head, marks, *rows))
    note = f"\n\n{plain(table.note)}" if table.note else ""
    return f"{plain(table.caption)}\n\n{text}{note}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

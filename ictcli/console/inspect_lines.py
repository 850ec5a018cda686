"""Lines of cells for `ictcli inspect`: cut, padded and packed to a width."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ictcli.text import sign


def cell(piece: str, width: int) -> str:
    """A token in exactly `width` cells; a longer one ends in an ellipsis."""
    shown = sign(piece)
    if cell_len(shown) > width:
        shown = set_cell_size(shown, width - 1) + "…"
    return set_cell_size(shown, width)


def last_cells(text: str, cells: int) -> str:
    while cell_len(text) > cells:
        text = text[1:]
    return text


def fit(line: Text, width: int) -> Text:
    line.no_wrap, line.overflow = True, "crop"
    line.truncate(width, overflow="ellipsis")
    return line


def packed(parts: Sequence[Text], width: int) -> list[Text]:
    """The parts with two spaces between, on as few lines as hold them whole."""
    lines: list[Text] = []
    for part in parts:
        if lines and lines[-1].cell_len + 2 + part.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], "  ", part)
        else:
            lines.append(part)
    return lines

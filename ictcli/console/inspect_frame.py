"""Drawing one frame of `ictcli inspect`: exactly as many lines as the terminal has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from ictcli.console.inspect_lines import cell, fit, last_cells, packed
from ictcli.console.live import BLOCKS
from ictcli.inspect.record import Recorded
from ictcli.inspect.view import LEVELS, View, level, regime
from ictcli.text import sign, visible

WIDEST = 14
"""Cells of the widest token in the grid; a longer one ends in an ellipsis."""
DARK = ("", "#4a3a2c", "#7a4a1e", "#a85a10", "#d97706", "#ffb020")
LIGHT = ("", "#ffefd9", "#ffdcae", "#ffc078", "#fb9a3c", "#e8710a")
KEYS = "←→↑↓ move  space: kept  m method  s shade  n/p prompt  [/] step  c model  q quit"
SHORT_KEYS = "←→↑↓ space m s n p [ ] c  q quit"
MARKS = {"correct": "✓", "wrong": "✗", "unparsed": "?", "timeout": "⌛"}


@dataclass
class Cursor:
    """Where one looks: all from 0."""

    prompt: int = 0
    row: int = 0
    position: int = 0
    choice: int = 0
    by: str = "uniqueness"


class Palette:
    """Styles of shades and kept marks. Kept tokens are bold and underlined, whatever the colours;
    the cursor is reversed."""

    def __init__(self, *, light: bool) -> None:
        colours = LIGHT if light else DARK
        self.shades = [Style()] + [
            Style(bgcolor=colour, color="black" if light or number > 3 else "white")
            for number, colour in enumerate(colours[1:], 1)
        ]

    def token(self, shade: int, *, kept: bool, cursor: bool) -> Style:
        style = self.shades[shade]
        if kept:
            style += Style(bold=True, underline=True)
        return style + Style(reverse=True, bold=True) if cursor else style


class Frame:
    """One prompt of a view at a cursor, drawn into `width` x `height` cells."""

    def __init__(
        self, view: View, cursor: Cursor, palette: Palette, width: int, height: int
    ) -> None:
        self.view, self.cursor, self.palette = view, cursor, palette
        self.width, self.height = width, height
        self.rows = list(view.rows(cursor.prompt))
        self.row = self.rows[cursor.row]
        self.choice = view.choices[cursor.choice]
        self.top = view.top(cursor.by, self.choice)
        self.values = view.values(cursor.by, self.choice)

    def lines(self, candidates: Sequence[Text], status: str) -> list[Text]:
        """The whole frame; `candidates` are lines of the model's answer, if it was asked."""
        foot = [*self._token(), *candidates]
        head = self._head()
        spare = self.height - len(head) - len(foot) - 1  # and the last line
        told = self._told()
        grid = self._grid(max(1, min(len(self.rows), spare - (1 if told else 4))))
        left = spare - len(grid) - 1
        text = 0 if told else max(4, left // 2)
        strips = self._strips(max(0, min(len(self.view.choices) + 1, left - text)))
        flow = self._flow(max(0, left - len(strips))) if text else []
        body = [*head, *grid, *strips, self._rule(self._heading()), *flow]
        room = self.height - 1 - len(foot)
        body = body[:room] + [Text()] * (room - len(body))
        keys = KEYS if cell_len(KEYS) <= self.width else SHORT_KEYS
        last = Text(status or keys, style="bold" if status else "dim")
        return [fit(line, self.width) for line in [*body, *foot, last]]

    def _head(self) -> list[Text]:
        view, recorded = self.view, self.view.recorded
        problem = recorded.batch.problems[self.cursor.prompt]
        where = str(recorded.place.run or recorded.path)
        place = f"step {recorded.step} (recorded: {_near(recorded)})"
        first = Text.assemble(
            (f"prompt {self.cursor.prompt + 1}/{view.prompts}", "bold"),
            f"  {place}  ",
            (where, "dim"),
        )
        gold = f"  gold {visible(problem.gold)}"
        question = visible(problem.prompt)
        room = max(10, self.width - cell_len(gold))
        if cell_len(question) > room:
            question = "…" + last_cells(question, room - 1)
        kept = self.choice.kept[self.rows].sum()
        told = [
            Text.assemble(
                "kept by ",
                (self.choice.name, "bold underline"),
                f" ({kept} here, {self.choice.kept[recorded.batch.rollouts.valid].mean():.1%})",
            ),
            Text.assemble(f"shaded by {self.cursor.by} ", self._legend()),
        ]
        asked = Text.assemble(question, (gold, "bold"))
        return [first, asked, *packed(told, self.width), self._rule(Text())]

    def _legend(self) -> Text:
        text = Text("0 ")
        for shade in range(1, LEVELS):
            text.append("  ", style=self.palette.shades[shade])
        return text.append(f" {self.top:.3g}")

    def _rule(self, title: Text) -> Text:
        text = Text("─ ", style="dim") if title.plain else Text(style="dim")
        if title.plain:
            text.append_text(title).append(" ")
        return text.append("─" * max(0, self.width - text.cell_len), style="dim")

    def _columns(self) -> tuple[int, list[int]]:
        """The first position that the grid shows, and the cells of each it shows: as many around
        the cursor as fit."""
        longest = max(len(self.view.pieces(row)) for row in self.rows)
        room = self.width - self._label_width()

        def cells(t: int) -> int:
            found = [sign(p[t]) for row in self.rows if len(p := self.view.pieces(row)) > t]
            return min(WIDEST, max(map(cell_len, found), default=1))

        first = last = min(self.cursor.position, longest - 1)
        widths = {first: cells(first)}
        used = widths[first]
        while first > 0 or last < longest - 1:
            left = first > 0 and (
                last == longest - 1 or self.cursor.position - first <= last - self.cursor.position
            )
            t = first - 1 if left else last + 1
            widths[t] = cells(t)
            used += widths[t]
            if used > room:
                del widths[t]
                break
            first, last = min(first, t), max(last, t)
        return first, [widths[t] for t in range(first, last + 1)]

    def _told(self) -> bool:
        """Whether the grid holds the current rollout from end to end without a gap."""
        first, widths = self._columns()
        pieces = self.view.pieces(self.row)
        whole = first == 0 and len(widths) >= len(pieces)
        return whole and all(cell_len(sign(p)) == w for p, w in zip(pieces, widths, strict=False))

    def _label_width(self) -> int:
        return 12

    def _grid(self, count: int) -> list[Text]:
        """The rollouts side by side, token under token of the same position."""
        first, widths = self._columns()
        batch = self.view.recorded.batch
        start = max(0, min(self.cursor.row - count // 2, len(self.rows) - count))
        found: list[Text] = []
        for number in range(start, start + count):
            row = self.rows[number]
            here = number == self.cursor.row
            mark = MARKS.get(batch.verdicts[row].status, "?")
            label = f"{'▸' if here else ' '}{number + 1:2} {mark} {batch.advantage[row]:+.2f}"
            line = Text(set_cell_size(label, self._label_width()), style="bold" if here else "")
            pieces = self.view.pieces(row)
            for t, width in enumerate(widths, first):
                if t < len(pieces):
                    line.append(cell(pieces[t], width), style=self._style(row, t))
            found.append(line)
        return found

    def _style(self, row: int, t: int) -> Style:
        return self.palette.token(
            level(float(self.values[row, t]), self.top),
            kept=bool(self.choice.kept[row, t]),
            cursor=row == self.row and t == self.cursor.position,
        )

    def _strips(self, count: int) -> list[Text]:
        """Under the grid: the current rollout's shading as bars, and what each method keeps."""
        if count < 1:
            return []
        first, widths = self._columns()
        pieces = self.view.pieces(self.row)
        shown = [(t, w) for t, w in enumerate(widths, first) if t < len(pieces)]

        def strip(name: str, signs: list[str], style: str) -> Text:
            line = Text(set_cell_size(name, self._label_width()), style="dim")
            for (_, width), mark in zip(shown, signs, strict=True):
                line.append(mark.ljust(width), style=style)
            return line

        values = [float(self.values[self.row, t]) for t, _ in shown]
        bars = [BLOCKS[min(7, int(8 * v / self.top))] if v > 0 else " " for v in values]
        found = [strip(self.cursor.by, bars, "dim")]
        choices = self.view.choices
        if count <= len(choices):  # of all there is no room
            choices = sorted(choices, key=lambda choice: choice is not self.choice)
        for choice in choices[: count - 1]:
            kept = ["■" if choice.kept[self.row, t] else "·" for t, _ in shown]
            found.append(strip(choice.name, kept, "bold" if choice is self.choice else ""))
        return found

    def _heading(self) -> Text:
        batch = self.view.recorded.batch
        verdict, rollouts = batch.verdicts[self.row], batch.rollouts
        read = f"  answer {visible(verdict.extracted)}" if verdict.extracted else ""
        return Text(
            f"rollout {self.cursor.row + 1}: {verdict.status}  "
            f"reward {batch.rewards[self.row]:g}  advantage {batch.advantage[self.row]:+.2f}  "
            f"{rollouts.lengths[self.row]} tokens"
            f"{'' if rollouts.finished[self.row] else ', cut off'}{read}"
        )

    def _flow(self, count: int) -> list[Text]:
        """The current rollout as running text, the lines around the cursor."""
        lines, line, used, at = [Text()], Text(), 0, 0
        lines.clear()
        for t, piece in enumerate(self.view.pieces(self.row)):
            shown = sign(piece)
            if used + cell_len(shown) > self.width and used:
                lines.append(line)
                line, used = Text(), 0
            if t == self.cursor.position:
                at = len(lines)
            line.append(
                shown if piece.strip() else visible(piece) or shown, self._style(self.row, t)
            )
            used += cell_len(shown)
            if piece.endswith("\n"):
                lines.append(line)
                line, used = Text(), 0
        lines.append(line)
        start = max(0, min(at - count // 2, len(lines) - count))
        return lines[start : start + count]

    def _token(self) -> list[Text]:
        """The token at the cursor: its statistics, and who keeps it."""
        t, row = self.cursor.position, self.row
        pieces = self.view.pieces(row)
        stats = {name: v[row, t] for name, v in self.view.recorded.batch.rollouts.stats.items()}
        names = (("uniqueness", "u"), ("entropy", "H1"), ("purity", "β"), ("prob", "p"))
        shown = cell(pieces[t], min(WIDEST, cell_len(sign(pieces[t]))))
        told = [Text.assemble((shown, "bold reverse"), f" {t + 1}/{len(pieces)}")]
        told += [Text(f"{symbol} {stats[name]:.3f}") for name, symbol in names if name in stats]
        if "prob" in stats and "purity" in stats:
            found = regime(float(stats["prob"]), float(stats["purity"]))
            told.append(Text({"R_H": "R_H: p > β", "R_L": "R_L: p < β", None: "p = β"}[found]))
        told.append(Text(f"weight {self.choice.weights[row, t]:.2g}"))
        keepers = [(choice.name, bool(choice.kept[row, t])) for choice in self.view.choices]
        kept = [
            Text(f"{'■' if inside else '·'} {name}", "bold" if inside else "dim")
            for name, inside in keepers
        ]
        kept[0] = Text.assemble("kept by ", kept[0])
        absent = [Text(missing.sentence, "dim") for missing in self.view.missing]
        lines = [*packed(told, self.width), *packed(kept, self.width)]
        return [self._rule(Text()), *lines, *absent[:2]]


def _near(recorded: Recorded) -> str:
    """The recorded steps, a few around this one."""
    steps = list(recorded.place.steps)
    place = steps.index(recorded.step)
    first, last = max(0, place - 2), min(len(steps), place + 3)
    named = [str(step) for step in steps[first:last]]
    return ", ".join([*["…"] * (first > 0), *named, *["…"] * (last < len(steps))])

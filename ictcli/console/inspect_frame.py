"""One frame of `ictcli inspect`: as many lines as the terminal has."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from ictcli.console.live import BLOCKS
from ictcli.console.table import cell_text
from ictcli.inspect.recorded import RecordedStep
from ictcli.inspect.view import LEVELS, MARKS, SYMBOLS, View, level, regime
from ictcli.text import one_line, sign, visible

WIDEST = 14
"""Most cells of a token in the grid; longer ones end in an ellipsis."""
LABEL = 12
"""Cells of the labels left of the grid."""
DARK = ("", "#4a3a2c", "#7a4a1e", "#a85a10", "#d97706", "#ffb020")
LIGHT = ("", "#ffefd9", "#ffdcae", "#ffc078", "#fb9a3c", "#e8710a")
KEYS = "←→↑↓ move  space: kept  m method  s shade  n/p prompt  [/] step  c model  q quit"
SHORT_KEYS = "←→↑↓ space m s n p [ ] c  q quit"
REGIMES = {"R_H": "R_H: p > β", "R_L": "R_L: p < β", None: "p = β"}


@dataclass
class Cursor:
    """The prompt, rollout, token and selection looked at, counted from 0, and the shading."""

    prompt: int = 0
    row: int = 0
    position: int = 0
    selection: int = 0
    by: str = "uniqueness"


class Palette:
    """Styles of tokens: shaded by colour, bold and underlined if kept, reversed at the cursor."""

    def __init__(self, *, light: bool, coloured: bool = True) -> None:
        self.coloured = coloured
        """Whether the terminal shows colours at all: NO_COLOR and some terminals do not."""
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
    """One prompt of a view, drawn into `width` x `height` cells."""

    def __init__(
        self, view: View, cursor: Cursor, palette: Palette, width: int, height: int
    ) -> None:
        self.view, self.cursor, self.palette = view, cursor, palette
        self.width, self.height = width, height
        self.rows = list(view.rows(cursor.prompt))
        self.row = self.rows[cursor.row]
        self.selection = view.selections[cursor.selection]
        self.top = view.top(cursor.by, self.selection)
        self.values = view.values(cursor.by, self.selection)

    def lines(self, candidates: Sequence[Text], status: str) -> list[Text]:
        """The frame, with the lines of the model's candidates, if it was asked."""
        foot = [*self._token(), *candidates]
        head = self._head()
        spare = self.height - len(head) - len(foot) - 1  # and the last line
        whole = self._is_whole()
        grid = self._grid(max(1, min(len(self.rows), spare - (1 if whole else 4))))
        left = spare - len(grid) - 1
        text = 0 if whole else max(4, left // 2)
        strips = self._strips(max(0, min(len(self.view.selections) + 1, left - text)))
        flow = self._flow(max(0, left - len(strips))) if text else []
        body = [*head, *grid, *strips, self._rule(self._heading()), *flow]
        room = self.height - 1 - len(foot)
        body = body[:room] + [Text()] * (room - len(body))
        keys = KEYS if cell_len(KEYS) <= self.width else SHORT_KEYS
        last = Text(one_line(status) or keys, style="bold" if status else "dim")
        return [*body, *foot, last]

    def _head(self) -> list[Text]:
        recorded = self.view.recorded
        problem = recorded.batch.problems[self.cursor.prompt]
        first = Text.assemble(
            (f"prompt {self.cursor.prompt + 1}/{self.view.prompts}", "bold"),
            f"  step {recorded.step} (recorded: {_near(recorded)})  ",
            (one_line(recorded.recordings.run or recorded.path), "dim"),
        )
        gold = f"  gold {visible(problem.gold)}"
        question = visible(problem.prompt)
        room = max(10, self.width - cell_len(gold))
        if cell_len(question) > room:
            question = "…" + set_cell_size(question[::-1], room - 1)[::-1]
        kept = self.selection.kept
        share = kept[recorded.batch.rollouts.valid].mean()
        legend: list[str | tuple[str, Style]] = [f" up to {self.top:.3g} (no colours here)"]
        if self.palette.coloured:
            shades = [("  ", self.palette.shades[shade]) for shade in range(1, LEVELS)]
            legend = [" 0 ", *shades, f" {self.top:.3g}"]
        settings = [
            Text.assemble(
                "kept by ",
                (one_line(self.selection.name), "bold underline"),
                f" ({kept[self.rows].sum()} here, {share:.1%})",
            ),
            Text.assemble(f"shaded by {self.cursor.by}", *legend),
        ]
        second = Text.assemble(question, (gold, "bold"))
        return [first, second, *packed(settings, self.width), self._rule()]

    def _rule(self, title: str = "") -> Text:
        text = Text.assemble(("─ ", "dim"), title, " ") if title else Text()
        return text.append("─" * max(0, self.width - text.cell_len), style="dim")

    @cached_property
    def _columns(self) -> tuple[int, list[int]]:
        """The first position in the grid, and the cells of each position: as many positions as fit
        around the cursor."""
        longest = max(len(self.view.texts(row)) for row in self.rows)
        room = self.width - LABEL

        def cells(t: int) -> int:
            tokens = [texts[t] for row in self.rows if len(texts := self.view.texts(row)) > t]
            return min(WIDEST, max((cell_len(sign(token)) for token in tokens), default=1))

        first = last = self.cursor.position
        widths = {first: cells(first)}
        while first > 0 or last < longest - 1:
            left = first > 0 and (
                last == longest - 1 or self.cursor.position - first <= last - self.cursor.position
            )
            t = first - 1 if left else last + 1
            width = cells(t)
            if sum(widths.values()) + width > room:
                break
            widths[t] = width
            first, last = min(first, t), max(last, t)
        return first, [widths[t] for t in range(first, last + 1)]

    def _is_whole(self) -> bool:
        """Whether the grid holds the current rollout from end to end without gaps."""
        first, widths = self._columns
        texts = self.view.texts(self.row)
        complete = first == 0 and len(widths) >= len(texts)
        return complete and all(cell_len(sign(t)) == w for t, w in zip(texts, widths, strict=False))

    def _grid(self, count: int) -> list[Text]:
        """A line a rollout; tokens of the same position stand in one column."""
        first, widths = self._columns
        batch = self.view.recorded.batch
        start = max(0, min(self.cursor.row - count // 2, len(self.rows) - count))
        lines: list[Text] = []
        for number in range(start, start + count):
            row = self.rows[number]
            here = number == self.cursor.row
            mark = MARKS.get(batch.verdicts[row].status, "?")
            label = f"{'▸' if here else ' '}{number + 1:2} {mark} {batch.advantage[row]:+.2f}"
            line = Text(set_cell_size(label, LABEL), style="bold" if here else "")
            for t, (text, width) in enumerate(
                zip(self.view.texts(row)[first:], widths, strict=False), first
            ):
                line.append(cell(text, width), style=self._style(row, t))
            lines.append(line)
        return lines

    def _style(self, row: int, t: int) -> Style:
        return self.palette.token(
            level(float(self.values[row, t]), self.top),
            kept=bool(self.selection.kept[row, t]),
            cursor=row == self.row and t == self.cursor.position,
        )

    def _strips(self, count: int) -> list[Text]:
        """The current rollout's shading as bars, and what each method keeps of it."""
        if count < 1:
            return []
        first, widths = self._columns
        places = range(first, min(first + len(widths), len(self.view.texts(self.row))))

        def strip(name: str, signs: Sequence[str], style: str) -> Text:
            marks = "".join(mark.ljust(w) for mark, w in zip(signs, widths, strict=False))
            return Text.assemble((set_cell_size(one_line(name), LABEL), "dim"), (marks, style))

        values = [float(self.values[self.row, t]) for t in places]
        bars = [BLOCKS[min(7, int(8 * v / self.top))] if v > 0 else " " for v in values]
        lines = [strip(self.cursor.by, bars, "dim")]
        selections = self.view.selections
        if count <= len(selections):  # no room for all
            selections = sorted(selections, key=lambda s: s is not self.selection)
        for selection in selections[: count - 1]:
            kept = ["■" if selection.kept[self.row, t] else "·" for t in places]
            lines.append(strip(selection.name, kept, "bold" * (selection is self.selection)))
        return lines

    def _heading(self) -> str:
        batch = self.view.recorded.batch
        verdict, rollouts = batch.verdicts[self.row], batch.rollouts
        answer = f"  answer {visible(verdict.extracted)}" if verdict.extracted else ""
        return (
            f"rollout {self.cursor.row + 1}: {verdict.status}  "
            f"reward {batch.rewards[self.row]:g}  advantage {batch.advantage[self.row]:+.2f}  "
            f"{rollouts.lengths[self.row]} tokens"
            f"{'' if rollouts.finished[self.row] else ', cut off'}{answer}"
        )

    def _flow(self, count: int) -> list[Text]:
        """The current rollout as running text: the lines around the cursor."""
        lines, current = [Text()], 0
        for t, text in enumerate(self.view.texts(self.row)):
            shown = sign(text) if text.strip() else visible(text) or sign(text)
            if lines[-1] and lines[-1].cell_len + cell_len(shown) > self.width:
                lines.append(Text())
            if t == self.cursor.position:
                current = len(lines) - 1
            lines[-1].append(shown, self._style(self.row, t))
            if text.endswith("\n"):
                lines.append(Text())
        start = max(0, min(current - count // 2, len(lines) - count))
        return lines[start : start + count]

    def _token(self) -> list[Text]:
        """The token at the cursor: its statistics, and which methods keep it."""
        t, row = self.cursor.position, self.row
        texts = self.view.texts(row)
        stats = {name: v[row, t] for name, v in self.view.recorded.batch.rollouts.stats.items()}
        shown = cell(texts[t], min(WIDEST, cell_len(sign(texts[t]))))
        facts = [Text.assemble((shown, "bold reverse"), f" {t + 1}/{len(texts)}")]
        facts += [Text(f"{SYMBOLS[s]} {stats[s]:.3f}") for s in SYMBOLS if s in stats]
        if "prob" in stats and "purity" in stats:
            facts.append(Text(REGIMES[regime(float(stats["prob"]), float(stats["purity"]))]))
        facts.append(Text(f"weight {self.selection.weights[row, t]:.2g}"))
        kept = [
            cell_text(f"■ {s.name}", "bold") if s.kept[row, t] else cell_text(f"· {s.name}", "dim")
            for s in self.view.selections
        ]
        kept[0] = Text.assemble("kept by ", kept[0])
        missing = [cell_text(missing.sentence, "dim") for missing in self.view.missing[:2]]
        return [self._rule(), *packed(facts, self.width), *packed(kept, self.width), *missing]


def _near(recorded: RecordedStep) -> str:
    """The recorded steps around this one."""
    steps = list(recorded.recordings.steps)
    place = steps.index(recorded.step)
    first, last = max(0, place - 2), min(len(steps), place + 3)
    return ", ".join(
        [*["…"] * (first > 0), *map(str, steps[first:last]), *["…"] * (last < len(steps))]
    )


def cell(token: str, width: int) -> str:
    """A token in exactly `width` cells; a longer one ends in an ellipsis."""
    shown = sign(token)
    if cell_len(shown) > width:
        shown = set_cell_size(shown, width - 1) + "…"
    return set_cell_size(shown, width)


def packed(parts: Sequence[Text], width: int) -> list[Text]:
    """The parts with two spaces between them, on as few lines as hold them whole."""
    lines: list[Text] = []
    for part in parts:
        if lines and lines[-1].cell_len + 2 + part.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], "  ", part)
        else:
            lines.append(part)
    return lines

"""Draws a frame of the interactive `ictcli inspect`, as high as the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from ictcli.console.table import cell_text
from ictcli.inspect.group import LEVELS, GroupView, RolloutView, level
from ictcli.tables.numbers import shown_share
from ictcli.text import figure, one_line, sign, visible

WIDEST = 14
"""Maximum width of a token in the grid, in cells; a longer token ends in an ellipsis."""
LABEL = 12
SHADES = ("#4a3a2c", "#7a4a1e", "#a85a10", "#d97706", "#ffb020")
INKS = ("white", "white", "white", "black", "black")
KEYS = "←→↑↓ move  space: kept  m method  s shade  n/p prompt  [/] step  q quit"
SHORT_KEYS = "←→↑↓ space m s n p [ ]  q quit"
REGIMES = {"R_H": "R_H: p > β", "R_L": "R_L: p < β", None: "p = β"}


@dataclass
class Cursor:
    """The position of the cursor (rollout and token, from 0), the method and the shading."""

    method: str
    by: str
    row: int = 0
    position: int = 0


class Palette:
    """Styles of tokens: shaded by colour, bold and underlined if the method keeps them, reversed at
    the cursor. `coloured`: whether the terminal shows colours (False also with NO_COLOR)."""

    def __init__(self, *, coloured: bool = True) -> None:
        self.coloured = coloured
        pairs = zip(SHADES, INKS, strict=True)
        self.shades = [Style(), *(Style(bgcolor=shade, color=ink) for shade, ink in pairs)]

    def token(self, shade: int, *, kept: bool, cursor: bool) -> Style:
        style = self.shades[shade]
        if kept:
            style += Style(bold=True, underline=True)
        return style + Style(reverse=True, bold=True) if cursor else style


class Frame:
    """A group drawn into `width` x `height` cells."""

    def __init__(
        self, group: GroupView, cursor: Cursor, palette: Palette, width: int, height: int
    ) -> None:
        self.group, self.cursor, self.palette = group, cursor, palette
        self.width, self.height = width, height
        self.rollout = group.rollouts[cursor.row]
        self.top = group.top(cursor.by, cursor.method)
        self.values = [rollout.values(cursor.by, cursor.method) for rollout in group.rollouts]

    def lines(self, status: str) -> list[Text]:
        """Return the frame's lines, as many as the terminal has."""
        foot, head = self._token(), self._head()
        spare = self.height - len(head) - len(foot) - 2  # minus a rule and the last line
        grid = self._grid(max(1, min(len(self.group.rollouts), spare - 4)))
        rollout = self.rollout
        answer = f"  answer {visible(rollout.extracted)}" if rollout.extracted else ""
        about = f"{rollout.verdict}  {rollout.summary(self.cursor.method)}{answer}"
        flow = self._flow(max(0, spare - len(grid)))
        body = [*head, *grid, self._rule(f"rollout {rollout.row}: {about}"), *flow]
        room = self.height - 1 - len(foot)
        body = body[:room] + [Text()] * (room - len(body))
        keys = KEYS if cell_len(KEYS) <= self.width else SHORT_KEYS
        last = Text(one_line(status) or keys, style="bold" if status else "dim")
        return [*body, *foot, last]

    def _head(self) -> list[Text]:
        group, place = self.group, self.group.steps.index(self.group.step)
        before, last = max(0, place - 2), place + 3
        near = ["…"] * (before > 0) + [*map(str, group.steps[before:last])]
        near += ["…"] * (last < len(group.steps))
        first = Text.assemble(
            (f"prompt {group.prompt}/{group.prompts}", "bold"),
            f"  step {group.step} (recorded: {', '.join(near)})  ",
            (one_line(group.run), "dim"),
        )
        gold = f"  gold {visible(group.problem['gold'])}"
        question = visible(group.problem["prompt"])
        room = max(10, self.width - cell_len(gold))
        if cell_len(question) > room:
            question = "…" + set_cell_size(question[::-1], room - 1)[::-1]
        method = group.method(self.cursor.method)
        legend: list[str | tuple[str, Style]] = [f" up to {self.top:.3g} (no colours here)"]
        if self.palette.coloured:
            shades = [("  ", self.palette.shades[shade]) for shade in range(1, LEVELS)]
            legend = [" 0 ", *shades, f" {self.top:.3g}"]
        name, share = one_line(method.name), f" ({method.kept} here, {shown_share(method.share)})"
        kept = Text.assemble("kept by ", (name, "bold underline"), share)
        shaded = Text.assemble(f"shaded by {self.cursor.by}", *legend)
        second = Text.assemble(question, (gold, "bold"))
        return [first, second, *packed([kept, shaded], self.width), self._rule()]

    def _rule(self, title: str = "") -> Text:
        text = Text.assemble(("─ ", "dim"), title, " ") if title else Text()
        return text.append("─" * max(0, self.width - text.cell_len), style="dim")

    @cached_property
    def _columns(self) -> tuple[int, list[int]]:
        """The first token position in the grid, and the widths of the positions that fit in it."""
        rows = [rollout.pieces for rollout in self.group.rollouts]
        longest = max(map(len, rows))
        room = self.width - LABEL

        def cells(t: int) -> int:
            lengths = (cell_len(sign(pieces[t])) for pieces in rows if len(pieces) > t)
            return min(WIDEST, max(lengths, default=1))

        here = self.cursor.position
        widths = {here: cells(here)}
        for t in sorted(range(longest), key=lambda t: abs(t - here))[1:]:
            widths[t] = cells(t)
            if sum(widths.values()) > room:
                del widths[t]
                break
        return min(widths), [widths[t] for t in sorted(widths)]

    def _grid(self, count: int) -> list[Text]:
        """Return `count` lines, one per rollout; tokens of the same position form a column."""
        first, widths = self._columns
        start = max(0, min(self.cursor.row - count // 2, len(self.group.rollouts) - count))
        lines: list[Text] = []
        for rollout in self.group.rollouts[start : start + count]:
            here = rollout is self.rollout
            advantage = figure(rollout.advantage, "+.2f")
            label = f"{'▸' if here else ' '}{rollout.row:2} {rollout.mark} {advantage}"
            line = Text(set_cell_size(label, LABEL), style="bold" if here else "")
            pieces = zip(rollout.pieces[first:], widths, strict=False)
            for t, (piece, width) in enumerate(pieces, first):
                line.append(cell(piece, width), style=self._style(rollout, t))
            lines.append(line)
        return lines

    def _style(self, rollout: RolloutView, t: int) -> Style:
        return self.palette.token(
            level(self.values[rollout.row - 1][t], self.top),
            kept=rollout.kept[self.cursor.method][t],
            cursor=rollout is self.rollout and t == self.cursor.position,
        )

    def _flow(self, count: int) -> list[Text]:
        lines, current = [Text()], 0
        for t, text in enumerate(self.rollout.pieces):
            piece = sign(text) if text.strip() else visible(text) or sign(text)
            if lines[-1] and lines[-1].cell_len + cell_len(piece) > self.width:
                lines.append(Text())
            if t == self.cursor.position:
                current = len(lines) - 1
            lines[-1].append(piece, self._style(self.rollout, t))
            if text.endswith("\n"):
                lines.append(Text())
        start = max(0, min(current - count // 2, len(lines) - count))
        return lines[start : start + count]

    def _token(self) -> list[Text]:
        t, rollout = self.cursor.position, self.rollout
        pieces, method = rollout.pieces, self.cursor.method
        token = cell(pieces[t], min(WIDEST, cell_len(sign(pieces[t]))))
        facts = [Text.assemble((token, "bold reverse"), f" {t + 1}/{len(pieces)}")]
        facts += [Text(f"{symbol} {value}") for symbol, value in rollout.figures(t).items()]
        facts += [Text(REGIMES[rollout.regime[t]])] if rollout.regime else []
        facts.append(Text(f"weight {figure(rollout.weights[method][t], '.2g')}"))
        kept = [
            cell_text(f"■ {name}", "bold") if keep[t] else cell_text(f"· {name}", "dim")
            for name, keep in rollout.kept.items()
        ]
        kept[0] = Text.assemble("kept by ", kept[0])
        missing = [cell_text(text, "dim") for text in [*self.group.missing.values()][:2]]
        return [self._rule(), *packed(facts, self.width), *packed(kept, self.width), *missing]


def cell(token: str, width: int) -> str:
    """Return a token padded to `width` cells, or cut to them with an ellipsis at the end."""
    text = sign(token)
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1) + "…"
    return set_cell_size(text, width)


def packed(parts: Sequence[Text], width: int) -> list[Text]:
    """Join the parts with two spaces, on as few lines as possible without breaking a part."""
    lines: list[Text] = []
    for part in parts:
        if lines and lines[-1].cell_len + 2 + part.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], "  ", part)
        else:
            lines.append(part)
    return lines

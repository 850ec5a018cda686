"""`ictcli inspect` on a terminal: keys move through a recorded run."""

import contextlib
import io
import time
from collections.abc import Callable, Generator, Sequence
from textwrap import wrap
from typing import Any

from rich.cells import set_cell_size
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from ictcli.console.inspect_frame import Cursor, Frame, Palette
from ictcli.console.inspect_keys import Keys, raw
from ictcli.console.plain import narrate
from ictcli.console.screen import Screen
from ictcli.errors import UserError
from ictcli.inspect.session import Session
from ictcli.inspect.view import View
from ictcli.text import one_line, sign

BESIDE = 70
"""Cells that the two tables of candidates take side by side."""
QUICK = 0.3
"""A model that answers within so many seconds is asked at every move."""


def move(session: Session, view: View, prompt: int, places: Sequence[tuple[int, int]]) -> int:
    """Draw and obey keys until q; returns the exit code. Restores the terminal."""
    console = Screen()
    try:
        with raw() as keys:
            background = keys.background()
            light = background is not None and sum(background) > 3 * 128
            coloured = not console.no_color and console.color_system is not None
            palette = Palette(light=light, coloured=coloured)
            app = App(session, view, prompt, places, console, palette)
            with console.screen(hide_cursor=True), _unwrapped(console):
                app.run(keys)
    except KeyboardInterrupt:
        return 130
    return 0


@contextlib.contextmanager
def _unwrapped(console: Screen) -> Generator[None]:
    """Cut lines that the terminal counts as longer than rich does."""
    console.file.write("\x1b[?7l")
    try:
        yield
    finally:
        console.file.write("\x1b[?7h")


class App:
    """What is shown, and what the keys do."""

    def __init__(
        self,
        session: Session,
        view: View,
        prompt: int,
        places: Sequence[tuple[int, int]],
        console: Screen,
        palette: Palette,
    ) -> None:
        self.session, self.view = session, view
        self.console, self.palette = console, palette
        self.cursor = Cursor(prompt, selection=view.shown, by=view.shading(session.by))
        self.status = "; ".join(view.recorded.notes)
        self.follow = False
        self.quick = True
        self._answer: tuple[tuple[int, int, int], dict[str, Any]] | None = None
        if places:
            self.cursor.row, self.cursor.position = places[0]
            narrate("asking the model ...")
            self._ask()
        else:
            self._to_deepest()
        self.keys: dict[str, Callable[[], None]] = {
            "left": lambda: self._move(-1),
            "right": lambda: self._move(1),
            "up": lambda: self._change_row(-1),
            "down": lambda: self._change_row(1),
            "home": lambda: self._to_token(0),
            "end": lambda: self._to_token(self._length()),
            "pageup": lambda: self._move(-20),
            "pagedown": lambda: self._move(20),
            " ": lambda: self._to_kept(1),
            "backspace": lambda: self._to_kept(-1),
            "tab": lambda: self._change_method(1),
            "m": lambda: self._change_method(1),
            "backtab": lambda: self._change_method(-1),
            "s": self._change_shading,
            "n": lambda: self._change_prompt(1),
            "p": lambda: self._change_prompt(-1),
            "]": lambda: self._change_step(1),
            "[": lambda: self._change_step(-1),
            "c": self._toggle_candidates,
        }

    def run(self, keys: Keys) -> None:
        """Until q. A resized terminal is redrawn within a quarter of a second."""
        size = None
        while True:
            if size != self.console.size:
                size = self.console.size
                self._draw()
            for key in keys.read(0.25):
                if key in ("q", "Q"):
                    return
                if act := self.keys.get(key):
                    self.status = ""
                    act()
                    if self.follow and self.quick and key != "c":
                        self._ask()
                    size = None  # draw once all keys are obeyed

    def _draw(self) -> None:
        width, height = self.console.size
        frame = Frame(self.view, self.cursor, self.palette, width, height)
        lines = frame.lines(self._candidates(width, height), self.status)
        with self.console:  # writes all lines at once
            for number, line in enumerate(lines):
                self.console.control(
                    Control.move_to(0, number), Control((ControlType.ERASE_IN_LINE, 2))
                )
                self.console.print(line, end="", no_wrap=True, overflow="ellipsis")

    # Moving

    @property
    def row(self) -> int:
        return self.view.rows(self.cursor.prompt)[self.cursor.row]

    def _length(self) -> int:
        return int(self.view.recorded.batch.rollouts.lengths[self.row])

    def _to_token(self, position: int) -> None:
        self.cursor.position = max(0, min(position, self._length() - 1))

    def _move(self, by: int) -> None:
        self._to_token(self.cursor.position + by)

    def _change_row(self, by: int) -> None:
        self.cursor.row = (self.cursor.row + by) % len(self.view.rows(self.cursor.prompt))
        self._move(0)

    def _to_kept(self, by: int) -> None:
        """To the next or the previous kept token of the rollout."""
        kept = self.view.selections[self.cursor.selection].kept[self.row].nonzero()[0]
        ahead = [t for t in kept if (t - self.cursor.position) * by > 0]
        if ahead:
            self.cursor.position = int(min(ahead) if by > 0 else max(ahead))

    def _to_deepest(self) -> None:
        """To the group's token of the highest value."""
        selection = self.view.selections[self.cursor.selection]
        rows = self.view.rows(self.cursor.prompt)
        group = slice(rows.start, rows.stop)
        values = self.view.values(self.cursor.by, selection)[group]
        valid = self.view.recorded.batch.rollouts.valid[group]
        place = int((valid * values).argmax())
        self.cursor.row, self.cursor.position = divmod(place, values.shape[1])

    def _change_method(self, by: int) -> None:
        self.cursor.selection = (self.cursor.selection + by) % len(self.view.selections)
        selection = self.view.selections[self.cursor.selection]
        self.status = f"{selection.name}: {selection.about}"

    def _change_shading(self) -> None:
        names = self.view.shadings
        self.cursor.by = names[(names.index(self.cursor.by) + 1) % len(names)]

    def _change_prompt(self, by: int) -> None:
        self.cursor.prompt = (self.cursor.prompt + by) % self.view.prompts
        self._to_deepest()

    def _change_step(self, by: int) -> None:
        steps = list(self.session.recordings.steps)
        place = steps.index(self.view.recorded.step) + by
        if not 0 <= place < len(steps):
            self.status = "No step was recorded " + ("before." if by < 0 else "behind this one.")
            return
        try:
            view, _ = self.session.open(steps[place], None)
        except UserError as error:
            self.status = error.message
            return
        name = self.view.selections[self.cursor.selection].name
        self.view, self.follow = view, False
        names = [selection.name for selection in view.selections]
        self.cursor.selection = names.index(name) if name in names else view.shown
        if self.cursor.by not in view.shadings:
            self.cursor.by = view.shadings[0]
        self.cursor.prompt = min(self.cursor.prompt, view.prompts - 1)
        self._to_deepest()

    # The model

    def _toggle_candidates(self) -> None:
        """Ask the model here and, if it is quick, at every move; or stop asking."""
        if self.follow and self._answer and self._answer[0] == self._here():
            self.follow = False
            return
        self.follow = True
        self.status = "asking the model ..."
        self._draw()
        self._ask()

    def _here(self) -> tuple[int, int, int]:
        return self.view.recorded.step, self.cursor.prompt, self.cursor.position

    def _ask(self) -> None:
        self.follow = True
        hidden = io.StringIO()  # progress bars
        try:
            with contextlib.redirect_stderr(hidden), contextlib.redirect_stdout(hidden):
                model = self.session.model(self.view)
                model.load()
                started = time.perf_counter()
                position = model.at(self.cursor.prompt, [self.cursor.position])[0]
        except UserError as error:
            self.follow, self.status = False, f"{error.message} {error.hint}"
            return
        self.quick = time.perf_counter() - started < QUICK
        self.status = ""
        self._answer = self._here(), position

    def _candidates(self, width: int, height: int) -> list[Text]:
        """The model's answer, if it is about this position."""
        if not self.follow:
            return []
        if self._answer is None or self._answer[0] != self._here():
            return [] if self.status else [Text("c asks the model here", "dim")]
        token = int(self.view.recorded.batch.rollouts.tokens[self.row, self.cursor.position])
        position = self._answer[1]
        weights = self.session.model(self.view).load().sentence
        count = 3 if height < 30 else 8
        row = position["rows"][str(self.cursor.row + 1)]["candidates"]
        left = _table("likeliest of p", row[:count], {"p": "p", "P_avg": "mean"}, token)
        right = _table("likeliest of P_avg", position["mean"][:count], {"P_avg": "mean"}, token)
        if width >= BESIDE:
            lines = [Text.assemble(a, "    ", b) for a, b in zip(left, right, strict=True)]
        else:
            fewer = 1 + max(2, count // 2)
            lines = left[:fewer] + right[:fewer]
        return [*lines, *(Text(line, "dim") for line in wrap(one_line(weights), width))]


def _table(
    title: str, candidates: Sequence[dict[str, Any]], columns: dict[str, str], sampled: int
) -> list[Text]:
    """A header and a line a candidate; the sampled token is bold."""
    lines = [Text(f"{title:18}" + "".join(f"{name:>8}" for name in columns), "dim")]
    for candidate in candidates:
        style = "bold" if candidate["token"] == sampled else ""
        name = set_cell_size(sign(candidate["text"]), 18)
        figures = "".join(f"{candidate[key]:8.3f}" for key in columns.values())
        lines.append(Text.assemble((name, style), figures))
    return lines

"""`ictcli inspect` on a terminal: keys move through a recorded run."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Generator, Sequence
from textwrap import wrap
from typing import Any

from rich.cells import set_cell_size
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from ictcli.console.inspect_frame import Cursor, Frame, Palette
from ictcli.console.inspect_keys import Keys, raw
from ictcli.console.plain import narrate
from ictcli.errors import UserError
from ictcli.inspect.request import Session
from ictcli.inspect.view import View, shading
from ictcli.text import figure, sign

BESIDE = 70
"""Cells that the two tables of candidates take beside each other."""
QUICK = 0.3
"""Seconds that an answer of the model may take to be asked for at every move."""


def move(session: Session, view: View, prompt: int, asked: Sequence[tuple[int, int]]) -> int:
    """Draw and obey keys until q; gives the exit code. The terminal is left as it was found."""
    console = Console()
    try:
        with raw() as keys:
            light = _is_light(keys.background())
            app = App(session, view, prompt, asked, console, Palette(light=light))
            with console.screen(hide_cursor=True), _unwrapped(console):
                app.run(keys)
    except KeyboardInterrupt:
        return 130
    return 0


@contextlib.contextmanager
def _unwrapped(console: Console) -> Generator[None]:
    """Lines that a terminal takes for longer than we do are cut, and do not push others away."""
    console.file.write("\x1b[?7l")
    try:
        yield
    finally:
        console.file.write("\x1b[?7h")


def _is_light(colour: tuple[int, int, int] | None) -> bool:
    return colour is not None and sum(colour) > 3 * 128


class App:
    """What is shown, and what keys do to it."""

    def __init__(
        self,
        session: Session,
        view: View,
        prompt: int,
        asked: Sequence[tuple[int, int]],
        console: Console,
        palette: Palette,
    ) -> None:
        self.session, self.view = session, view
        self.console, self.palette = console, palette
        self.cursor = Cursor(prompt, choice=view.shown, by=shading(view, session.by))
        self.status = "; ".join(view.recorded.notes)
        self.follow = False
        self.quick = True
        if asked:
            self.cursor.row, self.cursor.position = asked[0]
        else:
            self._deepest()
        self._answer: tuple[tuple[int, int, int], dict[str, Any]] | None = None
        if asked:
            narrate("asking the model ...")
            self.ask()
        self.keys: dict[str, Callable[[], None]] = {
            "left": lambda: self._step_token(-1),
            "right": lambda: self._step_token(1),
            "up": lambda: self._step_row(-1),
            "down": lambda: self._step_row(1),
            "home": lambda: self._to_token(0),
            "end": lambda: self._to_token(1 << 30),
            "pageup": lambda: self._step_token(-20),
            "pagedown": lambda: self._step_token(20),
            " ": lambda: self._kept(1),
            "backspace": lambda: self._kept(-1),
            "tab": lambda: self._method(1),
            "m": lambda: self._method(1),
            "backtab": lambda: self._method(-1),
            "s": self._shade,
            "n": lambda: self._prompt(1),
            "p": lambda: self._prompt(-1),
            "]": lambda: self._step(1),
            "[": lambda: self._step(-1),
            "c": self._candidates,
        }

    def run(self, keys: Keys) -> None:
        """Until q. A changed size is drawn again within a quarter of a second."""
        size = None
        while True:
            if size != self.console.size:
                size = self.console.size
                self.draw()
            for key in keys.read(0.25):
                if key in ("q", "Q"):
                    return
                if act := self.keys.get(key):
                    self.status = ""
                    act()
                    if self.follow and self.quick and key != "c":
                        self.ask()
                    size = None  # draw when all keys are obeyed

    def draw(self) -> None:
        width, height = self.console.size
        frame = Frame(self.view, self.cursor, self.palette, width, height)
        lines = frame.lines(self._answered(height), self.status)
        with self.console:  # all at once
            for number, line in enumerate(lines):
                self.console.control(
                    Control.move_to(0, number), Control((ControlType.ERASE_IN_LINE, 2))
                )
                self.console.print(line, end="")

    # Moving

    @property
    def row(self) -> int:
        return self.view.rows(self.cursor.prompt)[self.cursor.row]

    def _length(self) -> int:
        return int(self.view.recorded.batch.rollouts.lengths[self.row])

    def _to_token(self, position: int) -> None:
        self.cursor.position = max(0, min(position, self._length() - 1))

    def _step_token(self, by: int) -> None:
        self._to_token(self.cursor.position + by)

    def _step_row(self, by: int) -> None:
        self.cursor.row = (self.cursor.row + by) % len(self.view.rows(self.cursor.prompt))
        self._to_token(self.cursor.position)

    def _kept(self, by: int) -> None:
        """The next kept token of the rollout, or the one before."""
        kept = self.view.choices[self.cursor.choice].kept[self.row].nonzero()[0]
        ahead = [t for t in kept if (t - self.cursor.position) * by > 0]
        if ahead:
            self.cursor.position = int(min(ahead) if by > 0 else max(ahead))

    def _deepest(self) -> None:
        """To the group's token of the highest value."""
        choice = self.view.choices[self.cursor.choice]
        rows = self.view.rows(self.cursor.prompt)
        values = self.view.values(self.cursor.by, choice)[rows.start : rows.stop]
        valid = self.view.recorded.batch.rollouts.valid[rows.start : rows.stop]
        place = int((valid * values).argmax())
        self.cursor.row, self.cursor.position = divmod(place, values.shape[1])

    def _method(self, by: int) -> None:
        self.cursor.choice = (self.cursor.choice + by) % len(self.view.choices)
        chosen = self.view.choices[self.cursor.choice]
        self.status = f"{chosen.name}: {chosen.about}"

    def _shade(self) -> None:
        names = self.view.shadings
        self.cursor.by = names[(names.index(self.cursor.by) + 1) % len(names)]

    def _prompt(self, by: int) -> None:
        self.cursor.prompt = (self.cursor.prompt + by) % self.view.prompts
        self.cursor.row = 0
        self._deepest()

    def _step(self, by: int) -> None:
        steps = list(self.session.place.steps)
        place = steps.index(self.view.recorded.step) + by
        if not 0 <= place < len(steps):
            self.status = "No step was recorded " + ("before." if by < 0 else "behind this one.")
            return
        try:
            view, _ = self.session.open(steps[place], None)
        except UserError as error:
            self.status = error.message
            return
        name = self.view.choices[self.cursor.choice].name
        self.view, self.follow = view, False
        names = [choice.name for choice in view.choices]
        self.cursor.choice = names.index(name) if name in names else view.shown
        if self.cursor.by not in view.shadings:
            self.cursor.by = view.shadings[0]
        self.cursor.prompt = min(self.cursor.prompt, view.prompts - 1)
        self.cursor.row = 0
        self._deepest()

    # The model

    def _candidates(self) -> None:
        """On: ask the model here and, if it is quick, wherever the cursor goes. Off again."""
        if self.follow and self._answered(0):
            self.follow = False
            return
        self.follow = True
        self.status = "asking the model ..."
        self.draw()
        self.ask()

    def ask(self) -> None:
        self.follow = True
        t = self.cursor.position
        try:
            with (
                contextlib.redirect_stderr(io.StringIO()),
                contextlib.redirect_stdout(io.StringIO()),
            ):  # progress bars
                model = self.session.model(self.view)
                model.load()
                started = time.perf_counter()
                found = model.at(self.cursor.prompt, [t])[0]
        except UserError as error:
            self.follow, self.status = False, f"{error.message} {error.hint}"
            return
        self.quick = time.perf_counter() - started < QUICK
        self.status = ""
        self._answer = (self.view.recorded.step, self.cursor.prompt, t), found

    def _answered(self, height: int) -> list[Text]:
        """The answer where it is one about this position."""
        if not self.follow:
            return []
        here = (self.view.recorded.step, self.cursor.prompt, self.cursor.position)
        if self._answer is None or self._answer[0] != here:
            return [] if self.status else [Text("c asks the model here", "dim")]
        token = int(self.view.recorded.batch.rollouts.tokens[self.row, self.cursor.position])
        weights = self.session.model(self.view).load().sentence
        count = 3 if height < 30 else 8
        return _candidate_lines(
            self._answer[1], self.cursor.row, weights, token, count, self.console.width
        )


def _candidate_lines(
    position: dict[str, Any], row: int, weights: str, token: int, count: int, width: int
) -> list[Text]:
    """Two tables, beside each other where there is room: the likeliest tokens of p, and of
    P_avg."""
    own, mean = position["rows"][str(row + 1)]["candidates"], position["mean"]

    def line(found: dict[str, Any], columns: Sequence[str], cells: int) -> Text:
        name = set_cell_size(sign(found["text"]), cells)
        figures = "   ".join(figure(found[column]) for column in columns)
        return Text.assemble((name, "bold" if found["token"] == token else ""), figures)

    if width >= BESIDE:
        found = [
            Text("likeliest of p          p   P_avg    likeliest of P_avg        P_avg", "dim")
        ]
        for a, b in list(zip(own, mean, strict=True))[:count]:
            left, right = line(a, ("p", "mean"), 18), line(b, ("mean",), 26)
            found.append(Text.assemble(left, "    ", right))
    else:
        fewer = max(2, count // 2)
        found = [Text("likeliest of p          p   P_avg", "dim")]
        found += [line(one, ("p", "mean"), 18) for one in own[:fewer]]
        found.append(Text("likeliest of P_avg        P_avg", "dim"))
        found += [line(one, ("mean",), 26) for one in mean[:fewer]]
    return [*found, *(Text(line, "dim") for line in wrap(weights, width))]

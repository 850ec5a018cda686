"""The interactive `ictcli inspect`: a view of recorded rollouts that the user moves with keys."""

from collections.abc import Callable
from functools import partial

from rich.control import Control
from rich.segment import ControlType

from ictcli.console import inspect_keys
from ictcli.console.inspect_frame import Cursor, Frame, Palette
from ictcli.console.table import Screen
from ictcli.errors import UserError
from ictcli.inspect.group import GroupView, RolloutView
from ictcli.inspect.view import StepView


def move(view: StepView, group: GroupView) -> int:
    """Draw the screen and obey keys until q. Restore the terminal and return the exit code."""
    console = Screen()
    try:
        with inspect_keys.raw():
            coloured = not console.no_color and console.color_system is not None
            app = App(view, group, console, Palette(coloured=coloured))
            with console.screen(hide_cursor=True):
                console.file.write("\x1b[?7l")  # no line wrap: widths may differ from rich's
                try:
                    app.run()
                finally:
                    console.file.write("\x1b[?7h")
    except KeyboardInterrupt:
        return 130
    return 0


class App:
    """The state of the interactive view, and the action of each key."""

    def __init__(self, view: StepView, group: GroupView, console: Screen, palette: Palette) -> None:
        self.view, self.group = view, group
        self.console, self.palette = console, palette
        self.cursor = Cursor(group.shown, group.by)
        self.status = "; ".join(group.notes)
        self._to_deepest()
        moves = {"left": -1, "right": 1, "pageup": -20, "pagedown": 20}
        self.keys: dict[str, Callable[[], None]] = {
            **{key: partial(self._move, by) for key, by in moves.items()},
            "up": partial(self._change_row, -1),
            "down": partial(self._change_row, 1),
            "home": partial(self._to_token, 0),
            "end": lambda: self._to_token(len(self.rollout.tokens)),
            " ": partial(self._to_kept, 1),
            "backspace": partial(self._to_kept, -1),
            **dict.fromkeys(("tab", "m"), partial(self._change_method, 1)),
            "backtab": partial(self._change_method, -1),
            "s": self._change_shading,
            "n": partial(self._change_prompt, 1),
            "p": partial(self._change_prompt, -1),
            "]": partial(self._change_step, 1),
            "[": partial(self._change_step, -1),
        }

    def run(self) -> None:
        """Obey keys until q. Redraw within a quarter of a second if the terminal is resized."""
        size = None
        while True:
            if size != self.console.size:
                size = self.console.size
                self._draw()
            for key in inspect_keys.read(0.25):
                if key in ("q", "Q"):
                    return
                if act := self.keys.get(key):
                    self.status = ""
                    act()
                    size = None  # redraw after all keys that were read

    def _draw(self) -> None:
        width, height = self.console.size
        lines = Frame(self.group, self.cursor, self.palette, width, height).lines(self.status)
        with self.console:  # writes all lines at once
            for number, line in enumerate(lines):
                self.console.control(
                    Control.move_to(0, number), Control((ControlType.ERASE_IN_LINE, 2))
                )
                self.console.print(line, end="", no_wrap=True, overflow="ellipsis")

    @property
    def rollout(self) -> RolloutView:
        return self.group.rollouts[self.cursor.row]

    def _to_token(self, position: int) -> None:
        self.cursor.position = max(0, min(position, len(self.rollout.tokens) - 1))

    def _move(self, by: int) -> None:
        self._to_token(self.cursor.position + by)

    def _change_row(self, by: int) -> None:
        self.cursor.row = (self.cursor.row + by) % len(self.group.rollouts)
        self._move(0)

    def _to_kept(self, by: int) -> None:
        marks = self.rollout.kept[self.cursor.method]
        kept = [t for t, keep in enumerate(marks) if keep and (t - self.cursor.position) * by > 0]
        if kept:
            self.cursor.position = min(kept) if by > 0 else max(kept)

    def _to_deepest(self) -> None:
        deepest = self.group.deepest(self.cursor.by, self.cursor.method)
        rollout, self.cursor.position = deepest[0] if deepest else (self.group.rollouts[0], 0)
        self.cursor.row = rollout.row - 1

    def _change_method(self, by: int) -> None:
        names = [method.name for method in self.group.methods]
        self.cursor.method = names[(names.index(self.cursor.method) + by) % len(names)]
        self.status = f"{self.cursor.method}: {self.group.method(self.cursor.method).about}"

    def _change_shading(self) -> None:
        names = self.view.shadings
        self.cursor.by = names[(names.index(self.cursor.by) + 1) % len(names)]

    def _change_prompt(self, by: int) -> None:
        prompt = (self.group.prompt - 1 + by) % self.view.prompts + 1
        self.group = self.view.group(prompt, self.cursor.by)
        self._to_deepest()

    def _change_step(self, by: int) -> None:
        steps = self.group.steps
        place = steps.index(self.group.step) + by
        if not 0 <= place < len(steps):
            self.status = f"No {'earlier' if by < 0 else 'later'} step was recorded."
            return
        try:
            self.view = self.view.step(steps[place])
        except UserError as error:
            self.status = error.message
            return
        if self.cursor.method not in [selection.name for selection in self.view.selections]:
            self.cursor.method = self.view.shown
        if self.cursor.by not in self.view.shadings:
            self.cursor.by = self.view.shadings[0]
        self._change_prompt(0)

"""The live view of a run on a terminal: progress, curves, and the newest rollout."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ictcli.console.plain import PlainObserver
from ictcli.console.table import Screen, cell_text
from ictcli.evaluation.record import Evaluation
from ictcli.recipe import Recipe
from ictcli.recipe.metrics import METRICS, shown_in
from ictcli.runs.observer import Observer, Step
from ictcli.runs.records import SftMetrics, StepMetrics
from ictcli.tables.numbers import shown_share
from ictcli.tasks.detokenize import token_texts
from ictcli.text import figure, visible

BLOCKS = "▁▂▃▄▅▆▇█"
CURVES = shown_in("live")
LEAST_SPAN = 0.1
"""Minimum range of values that a sparkline's height stands for, so that noise stays flat."""
SHOWN_TOKENS = 400


def is_share(name: str, values: Sequence[float | None]) -> bool:
    """Return whether a metric is a share; a mean reward in [0, 1] counts as a share."""
    if name == "reward":
        return all(0 <= value <= 1 for value in values if value is not None)
    return name in METRICS and METRICS[name].unit == "%"


def sparkline(
    values: Sequence[float | None], width: int, least: float = 0.0, *, share: bool = False
) -> str:
    """Draw the values with block characters, averaged into at most `width` characters. For a
    `share` the height stands for 0 to 1, else for the values' range, which is widened to at least
    `least` and a tenth of the largest value."""
    numbers = [value for value in values if value is not None]
    if not numbers:
        return ""
    size = -(-len(numbers) // width)
    places = [numbers[i : i + size] for i in range(0, len(numbers), size)]
    means = [sum(place) / len(place) for place in places]
    low, high = (0.0, 1.0) if share else (min(means), max(means))
    span = max(high - low, least, 0.1 * max(abs(high), abs(low))) or 1.0
    return "".join(BLOCKS[min(7, int((v - low) / span * 8))] for v in means)


def observer(recipe: Recipe, folder: Path, *, live: bool = True) -> Observer:
    """Return an observer that draws the live view or, if stderr is no terminal, prints lines."""
    err = Screen(stderr=True)
    drawn = live and err.is_terminal and not err.is_dumb_terminal
    return (LiveObserver if drawn else PlainObserver)(recipe, folder)


class LiveObserver(PlainObserver):
    """Draws the live view on stderr. Trained tokens of the newest rollout are in reverse video."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        self._console = Screen(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=8, transient=True)
        self._spinner = Spinner("dots")
        self._history: list[StepMetrics] = []
        self._status, self._done, self._of = "loading the model", 0, 1
        self._rollout: RenderableType = Text("")

    def __enter__(self) -> Self:
        self._live.start()
        self._draw()
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(OSError):
            self._live.stop()

    def loading(self, model: str) -> None: ...  # the initial status says so

    def evaluating(self, label: str, done: int, total: int) -> None:
        self._progress(f"evaluating ({label}): {done} of {total} samples", done, total)

    def evaluated(self, label: str, evaluation: Evaluation) -> None:
        super().evaluated(label, evaluation)
        number = self._history[-1].step if self._history else 0
        self._progress("training", number, self.recipe.steps)

    def resumed(self, step: int) -> None:
        super().resumed(step)
        self._progress("training", step, self.recipe.steps)

    def supervised(self, metrics: SftMetrics) -> None:
        step, steps = metrics.step, self.recipe.sft.steps
        self._progress(f"supervised step {step}/{steps}, loss {figure(metrics.loss)}", step, steps)

    def _progress(self, status: str, done: int, total: int) -> None:
        """Show the progress as a text and a bar."""
        self._status, self._done, self._of = status, done, total
        self._draw()

    def say(self, line: str) -> None:
        style = "yellow" if line.startswith("warning: ") else ""
        with contextlib.suppress(OSError):  # the run continues if its terminal is closed
            self._console.print(cell_text(line, style))

    def show(self, step: Step) -> None:
        self._history.append(step.metrics)
        self._rollout = self._newest(step)
        self._progress("training", step.number, self.recipe.steps)

    def _newest(self, step: Step) -> RenderableType:
        batch, kept = step.batch, step.kept
        trained = (kept.sum(axis=1) > 0) & (batch.advantage != 0)
        row = int(trained.argmax()) if trained.any() else 0
        rollouts = batch.rollouts
        problem = batch.problems[row // rollouts.group]
        text = Text(visible(problem.prompt[-SHOWN_TOKENS:]), style="dim")
        tokens = rollouts.tokens[row, : rollouts.lengths[row]][:SHOWN_TOKENS].tolist()
        pieces = token_texts(tokens, self.engine.tokenizer.decode if self.engine else None)
        for piece, keep in zip(pieces, kept[row], strict=False):
            text.append(visible(piece), style="not dim reverse" if keep else "not dim")
        status, advantage = batch.verdicts[row].status, float(batch.advantage[row])
        about = f"newest rollout: {status}, advantage {advantage:+.2f}; kept tokens reversed"
        return Panel(text, title=Text(about), title_align="left", border_style="dim")

    def _draw(self) -> None:
        recipe, done = self.recipe, len(self._history)
        number = self._history[-1].step if done else 0
        head = Table.grid(padding=(0, 1))
        name = cell_text(f"{recipe.label} on {recipe.data_name}", style="bold")
        state = cell_text(f"step {number}/{recipe.steps}  left {self.pace.left()}  {self._status}")
        room = self._console.width - len(name) - len(state) - 4
        bar = ProgressBar(total=self._of, completed=self._done, width=max(4, min(30, room)))
        head.add_row(self._spinner, name, bar, state)
        curves = Table.grid(padding=(0, 2))
        width = max(10, min(60, self._console.width - 30))
        parts = dict.fromkeys(name for metrics in self._history for name in metrics.rewards)
        for name in (*CURVES, *parts):
            values = [metrics.value(name) for metrics in self._history]
            metric = METRICS.get(name)
            share = metric is not None and metric.unit == "%"
            value = values[-1] if values else None
            last = shown_share(value) if share else figure(value)
            drawn = sparkline(values, width, LEAST_SPAN, share=is_share(name, values))
            curve = Text(drawn, style="cyan")
            label = name if metric is None else metric.label if share else metric.heading
            curves.add_row(Text(visible(label)), Text(last), curve)
        with contextlib.suppress(OSError):
            self._live.update(Group(head, curves, *[self._rollout] * bool(done)))

"""Prints a line per step, for logs and pipes."""

import time
from collections.abc import Callable
from pathlib import Path

from ictcli.console.lines import narrate
from ictcli.engine import Engine
from ictcli.evaluation.record import Evaluation
from ictcli.planning.time_estimate import Pace
from ictcli.recipe import Recipe
from ictcli.runs.observer import Observer, Step
from ictcli.runs.records import SftMetrics
from ictcli.tables.numbers import counted, shown_share
from ictcli.text import duration, figure, visible
from ictcli.tracking import where_to_look
from ictcli.train.evaluations import samples_of

EVERY = 10.0
"""Seconds between lines of progress if stderr is not a terminal."""


def progress_lines(say: Callable[[str], None]) -> Callable[[str, int, int], None]:
    """Return a function of (name, samples done, all samples) that reports to `say` now and then."""
    last, began = ("", 0.0, 0), (0.0, 0)

    def update(name: str, done: int, total: int) -> None:
        nonlocal last, began
        now, (last_name, before, last_done) = time.perf_counter(), last
        if name != last_name or done < last_done:  # the first call of an evaluation
            say(f"{name}: {counted(total, 'sample')}")
            began = now, done
        elif last_done < done < total and now - before >= EVERY:
            left = duration((now - began[0]) * (total - done) / (done - began[1]))
            say(f"{name}: {done:,}/{total:,} samples" + f", {left} left" * (10 * done > total))
        else:
            return
        last = name, now, done

    return update


class PlainObserver(Observer):
    """Prints the progress of a run on stderr, with the time left."""

    engine: Engine | None = None

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe, self.folder, self.pace = recipe, folder, Pace(recipe)
        self.notes = set[str]()
        self.explained = False  # whether the abbreviations in a step's line were explained
        self.progress = progress_lines(self.say)

    def loading(self, model: str) -> None:
        self.say(f"loading {model}")

    def attach(self, engine: Engine) -> None:
        self.engine, about = engine, engine.describe()
        for name in self.recipe.log:
            self.say(f"log:   {where_to_look(name, self.folder)}")
        self.say(
            f"{self.folder}: {self.recipe.label} on {self.recipe.data_name}, "
            f"{about['parameters']:,} parameters, {about['engine']} on {about['device']} "
            f"({about['dtype']})"
        )

    def evaluating(self, label: str, done: int, total: int) -> None:
        self.progress(f"evaluating ({label})", done, total)

    def evaluated(self, label: str, evaluation: Evaluation) -> None:
        later = samples_of(self.recipe, "after") / samples_of(self.recipe, label)
        self.pace.evaluation = evaluation.seconds_in_all * later
        scores = "  ".join(
            f"{name} {shown_share(score.value)}" for name, score in evaluation.figures.items()
        )
        self.say(f"{label}: {scores}  ({counted(evaluation.problems, 'problem')} x {evaluation.n})")

    def resumed(self, step: int) -> None:
        self.say(f"continuing after step {step}")

    def supervised(self, metrics: SftMetrics) -> None:
        self.say(
            f"sft {metrics.step}/{self.recipe.sft.steps}  loss {figure(metrics.loss)}  "
            f"tokens {metrics.tokens:,}  grad {figure(metrics.grad_norm)}"
        )

    def stepped(self, step: Step) -> None:
        self.pace.stepped(step.number, step.timings.seconds or 0.0)
        self.show(step)

    def show(self, step: Step) -> None:
        if not self.explained:
            self.say("H1, H2: Shannon's and Rényi-2 entropy of the next token at T = 1, in nats")
        self.explained, m = True, step.metrics
        parts = [f"{name.removeprefix('reward/')} {figure(m.rewards[name])}" for name in m.rewards]
        rewards = f" ({visible(', '.join(parts))})" * bool(parts)
        self.say(
            f"step {step.number}/{self.recipe.steps}  reward {figure(m.reward)}{rewards}  "
            f"H1 {figure(m.entropy)}  H2 {figure(m.renyi2)}  "
            f"kept {shown_share(m.share_kept)}  length {figure(m.length, '.1f')}  "
            f"unparsed {shown_share(m.unparsed)}  truncated {shown_share(m.truncated)}  "
            f"grad {figure(m.grad_norm)}  "
            f"{step.timings.seconds:.2f}s  left {self.pace.left()}"
        )

    def noted(self, message: str) -> None:
        if message not in self.notes:
            self.say(f"note: {message}")
        self.notes.add(message)

    def warned(self, message: str) -> None:
        for line in f"warning: {message}".split("\n"):
            self.say(line)

    def say(self, line: str) -> None:
        narrate(line)

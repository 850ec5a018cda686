"""Estimates how long a run will take from the duration of its steps and evaluations."""

from collections import deque
from dataclasses import dataclass
from statistics import fmean

from ictcli.recipe import Recipe
from ictcli.tables.numbers import counted
from ictcli.text import duration

RECENT = 20
"""Number of last steps whose mean duration is used, as response lengths change in training."""


@dataclass(frozen=True)
class TimeEstimate:
    """The number of steps and evaluations left in a run, and the seconds that each takes."""

    steps: int
    step: float
    evaluations: int
    evaluation: float
    supervised: int = 0
    supervised_step: float = 0.0

    @property
    def seconds(self) -> float:
        supervised = self.supervised * self.supervised_step
        return supervised + self.steps * self.step + self.evaluations * self.evaluation

    def parts(self) -> str:
        """Return a text such as `80 steps of 0.52s, 2 evaluations of 12s`."""
        kinds = (
            (self.supervised, "supervised step", self.supervised_step),
            (self.steps, "step", self.step),
            (self.evaluations, "evaluation", self.evaluation),
        )
        return ", ".join(
            f"{counted(number, kind)} of " + (f"{time:.2g}s" if time < 10 else duration(time))
            for number, kind, time in kinds
            if number or kind != "supervised step"
        )


def estimate_time(recipe: Recipe, step: float, evaluation: float, done: int = 0) -> TimeEstimate:
    """Estimate the time left after `done` steps, from the seconds of a `step` and an `evaluation`.
    Counts every evaluation still to come; if `done` is 0, also those before the first step."""
    every = recipe.eval.every
    between = max((recipe.steps - 1) // every - done // every, 0) if every else 0
    is_supervised = bool(recipe.sft_steps and recipe.steps)
    before = 0 if done else 1 + is_supervised
    return TimeEstimate(recipe.steps - done, step, before + between + 1, evaluation)


class Pace:
    """Estimates the time left in a run from its last steps and evaluation."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.timed = 0
        """Number of steps timed in this process."""
        self.evaluation = 0.0
        """Seconds that an evaluation takes."""
        self._steps, self._done = deque[float](maxlen=RECENT), 0

    def stepped(self, number: int, seconds: float) -> None:
        """Record that step `number` took `seconds`."""
        self.timed += 1
        if self.timed == 2:  # drop the first step, in which libraries warm up
            self._steps.clear()
        self._steps.append(seconds)
        self._done = number

    def estimate(self) -> TimeEstimate | None:
        """Estimate the time left after the latest step; None before the first step."""
        if not self._steps:
            return None
        return estimate_time(self.recipe, fmean(self._steps), self.evaluation, self._done)

    def left(self) -> str:
        """Return the time left, evaluations included, as text; `-` before the first step."""
        estimate = self.estimate()
        return duration(estimate.seconds) if estimate else "-"

"""How long a run will take, from the seconds of its steps and evaluations."""

from collections import deque
from dataclasses import dataclass
from statistics import fmean

from ictcli.recipe import Recipe
from ictcli.tables.numbers import counted
from ictcli.text import duration

RECENT = 20
"""Steps whose mean is taken: responses, and with them steps, get longer or shorter."""


@dataclass(frozen=True)
class TimeEstimate:
    """The steps and evaluations that are left of a run, and the seconds of one of each."""

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
        """Return `80 steps of 0.52s, 2 evaluations of 12s`."""
        kinds = (
            (self.supervised, "supervised step", self.supervised_step),
            (self.steps, "step", self.step),
            (self.evaluations, "evaluation", self.evaluation),
        )
        return ", ".join(
            f"{counted(number, kind)} of " + (f"{each:.2g}s" if each < 10 else duration(each))
            for number, kind, each in kinds
            if number or kind != "supervised step"
        )


def estimate_time(recipe: Recipe, step: float, evaluation: float, done: int = 0) -> TimeEstimate:
    """Estimate what is left after `done` steps: the other steps, the evaluations between and after
    them and, before the first step, those of the base model and after supervised steps."""
    every = recipe.eval.every
    between = max((recipe.steps - 1) // every - done // every, 0) if every else 0
    taught = bool(recipe.sft.data and recipe.sft.steps and recipe.steps)
    before = 0 if done else 1 + taught
    return TimeEstimate(recipe.steps - done, step, before + between + 1, evaluation)


class Pace:
    """Estimates what is left of a run by its last steps and evaluation."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.timed = 0
        """Steps of this process."""
        self.evaluation = 0.0
        """Seconds of an evaluation."""
        self._steps, self._done = deque[float](maxlen=RECENT), 0

    def stepped(self, number: int, seconds: float) -> None:
        """Call after step `number`."""
        self.timed += 1
        if self.timed == 2:  # libraries warmed up in the first
            self._steps.clear()
        self._steps.append(seconds)
        self._done = number

    def estimate(self) -> TimeEstimate | None:
        """Estimate what is left after the last step; None before the first one."""
        if not self._steps:
            return None
        return estimate_time(self.recipe, fmean(self._steps), self.evaluation, self._done)

    def left(self) -> str:
        """Return the time left, with the evaluations; `-` before the first step."""
        estimate = self.estimate()
        return duration(estimate.seconds) if estimate else "-"

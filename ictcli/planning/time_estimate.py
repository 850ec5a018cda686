"""How long a run will take, from the seconds of its steps and evaluations."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from ictcli.recipe import Recipe
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

    @property
    def seconds(self) -> float:
        return self.steps * self.step + self.evaluations * self.evaluation

    def parts(self) -> str:
        """Return `80 steps of 0.52s, 2 evaluations of 12s`."""
        kinds = (
            (self.steps, "step", self.step),
            (self.evaluations, "evaluation", self.evaluation),
        )
        return ", ".join(
            f"{number} {name}{'s' * (number > 1)} of "
            + (f"{seconds:.2g}s" if seconds < 10 else duration(seconds))
            for number, name, seconds in kinds
            if number
        )


def estimate_time(recipe: Recipe, step: float, evaluation: float, done: int = 0) -> TimeEstimate:
    """Estimate what is left after `done` steps: the other steps, the evaluations between and after
    them and, before the first step, the one of the base model."""
    every = recipe.eval.every
    between = max((recipe.steps - 1) // every - done // every, 0) if every else 0
    return TimeEstimate(recipe.steps - done, step, (done == 0) + between + 1, evaluation)


class Pace:
    """Measures the wall time of a run's steps, with all they write, and of its evaluations, and
    estimates what is left. `clock` gives seconds."""

    def __init__(self, recipe: Recipe, clock: Callable[[], float] = time.perf_counter) -> None:
        self.recipe = recipe
        self.timed = 0
        """Steps of this process whose time is known."""
        self._clock = clock
        self._done = 0
        self._started: float | None = None
        """When the step in flight began; later by what evaluations took since."""
        self._steps = deque[float](maxlen=RECENT)
        self._evaluation = 0.0
        self._evaluating: tuple[float, float] | None = None
        """When the evaluation in flight began, and which share of it is done."""

    def evaluating(self, done: int, total: int) -> None:
        """Call at the start of an evaluation, and now and then."""
        began = self._evaluating[0] if self._evaluating else self._clock()
        self._evaluating = began, done / total if total else 0.0

    def evaluated(self, seconds: float) -> None:
        """Call after an evaluation, or with what it took an earlier process."""
        now = self._clock()
        self._evaluation = seconds
        if self._started is None:
            self._started = now
        elif self._evaluating:
            self._started += now - self._evaluating[0]
        self._evaluating = None

    def supervised(self) -> None:
        """Call after a supervised step: it is none of the steps that are timed."""
        self._started = self._clock()

    def stepped(self, number: int) -> None:
        """Call after step `number`."""
        now = self._clock()
        if self._started is not None:
            self.timed += 1
            if self.timed == 2:  # libraries warmed up in the first
                self._steps.clear()
            self._steps.append(now - self._started)
        self._started, self._done = now, number

    def estimate(self, *, whole: bool = False) -> TimeEstimate | None:
        """Estimate what is left after the last step or, with `whole`, a run like this one from its
        beginning; None before the first step of this process."""
        if not self._steps:
            return None
        done = 0 if whole else self._done
        step = fmean(self._steps)
        return estimate_time(self.recipe, step=step, evaluation=self._evaluation, done=done)

    def left(self) -> str:
        """Return the time left, with the evaluations; `-` before the first step."""
        estimate = self.estimate()
        if estimate is None:
            return "-"
        done = self._evaluating[1] * self._evaluation if self._evaluating else 0.0
        return duration(max(estimate.seconds - done, 0.0))

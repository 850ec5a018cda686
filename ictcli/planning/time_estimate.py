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
    """What is left of a run: numbers, and seconds of each."""

    dense_steps: int
    dense_step: float
    steps: int
    """After the dense warm-up."""
    step: float
    evaluations: int
    evaluation: float

    @property
    def seconds(self) -> float:
        """Of all that is left."""
        steps = self.dense_steps * self.dense_step + self.steps * self.step
        return steps + self.evaluations * self.evaluation

    def parts(self) -> str:
        """`20 dense steps of 0.61s, 80 steps of 0.52s, 2 evaluations of 12s`."""
        kinds = (
            (self.dense_steps, "dense step", self.dense_step),
            (self.steps, "step", self.step),
            (self.evaluations, "evaluation", self.evaluation),
        )
        return ", ".join(
            f"{number} {name}{'s' * (number > 1)} of "
            + (f"{seconds:.2g}s" if seconds < 10 else duration(seconds))
            for number, name, seconds in kinds
            if number
        )


def estimate_time(
    recipe: Recipe, *, step: float, dense_step: float, evaluation: float, done: int = 0
) -> TimeEstimate:
    """What is left of a run after `done` steps, and the evaluation before training where
    there are any: the other steps, and the evaluations between and after them."""
    dense = max(recipe.dense_steps - done, 0)
    every = recipe.eval.every
    between = max((recipe.steps - 1) // every - done // every, 0) if every else 0
    steps = recipe.steps - max(recipe.dense_steps, done)
    evaluations = (done == 0) + between + 1
    return TimeEstimate(dense, dense_step, steps, step, evaluations, evaluation)


class Pace:
    """Measures a run on its way: the wall time of its steps, with all they write, and that of its
    evaluations. `clock` gives seconds."""

    def __init__(self, recipe: Recipe, clock: Callable[[], float] = time.perf_counter) -> None:
        self.recipe = recipe
        self._clock = clock
        self._done = 0
        self._started: float | None = None
        """When the step in flight began; later by what evaluations took since."""
        self._first: float | None = None
        """Seconds of this process's first step, in which libraries warm up."""
        self._steps: dict[bool, deque[float]] = {
            dense: deque(maxlen=RECENT) for dense in (False, True)
        }
        """By whether they are of the dense warm-up."""
        self._evaluation = 0.0
        self._evaluating: tuple[float, float] | None = None
        """When the evaluation in flight began, and which share of it is done."""

    def evaluating(self, done: int, total: int) -> None:
        """Called at the start of an evaluation, and now and then."""
        began = self._evaluating[0] if self._evaluating else self._clock()
        self._evaluating = began, done / total if total else 0.0

    def evaluated(self, seconds: float) -> None:
        """Called after an evaluation, or with what it took an earlier process."""
        now = self._clock()
        self._evaluation = seconds
        if self._started is None:
            self._started = now
        elif self._evaluating:
            self._started += now - self._evaluating[0]
        self._evaluating = None

    def supervised(self) -> None:
        """Called after a supervised step, which is none of the steps that are timed."""
        self._started = self._clock()

    def stepped(self, number: int) -> None:
        """Called after step `number`."""
        now = self._clock()
        if self._started is not None:
            took = now - self._started
            if self._first is None:
                self._first = took
            else:
                self._steps[number <= self.recipe.dense_steps].append(took)
        self._started, self._done = now, number

    @property
    def timed(self) -> bool:
        """Whether a step was timed in which no library warmed up."""
        return any(self._steps.values())

    def estimate(self, *, whole: bool = False) -> TimeEstimate | None:
        """What is left after the last step, or with `whole` a run like this one from its beginning;
        None before the first step of this process. Steps of a kind not yet seen are taken to be as
        long as the others."""
        if self._first is None:
            return None
        seen = {dense: fmean(steps) for dense, steps in self._steps.items() if steps}
        step = seen.get(False, seen.get(True, self._first))
        dense = seen.get(True, seen.get(False, self._first))
        done = 0 if whole else self._done
        return estimate_time(
            self.recipe, step=step, dense_step=dense, evaluation=self._evaluation, done=done
        )

    def left(self) -> str:
        """The time left, with the evaluations; `-` before the first step."""
        estimate = self.estimate()
        if estimate is None:
            return "-"
        done = self._evaluating[1] * self._evaluation if self._evaluating else 0.0
        return duration(max(estimate.seconds - done, 0.0))

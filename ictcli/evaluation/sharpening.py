"""How much of a gain in pass@1 is sharpening: what the model before training has at a better
temperature, and how much is not.

With p(T) the pass@1 of the model before training at temperature T, q that of the model after it, t
the temperature of the evaluation and T* the one of those tried where p is highest (t itself among
them):

    gain q(t) - p(t)  =  sharpening p(T*) - p(t)  +  not sharpening q(t) - p(T*)

Every difference is paired over problems, with the interval of `passk`.

T* is chosen after looking, by the very samples that p(T*) is measured with, so p(T*) is too high
rather than too low: sharpening is overstated, and what is not sharpening understated, the more so
the fewer samples are taken. The intervals do not reckon with that choice. Ours.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from pydantic import computed_field

from ictcli.evaluation.passk import Difference, Interval, mean_interval, paired
from ictcli.files.record import Record
from ictcli.tables.numbers import interval, listed, percent, points, setting
from ictcli.types import FloatArray

Solved = Mapping[float, FloatArray]
"""By temperature the share of correct samples of each problem, (N,); the evaluation's own first."""


class Sharpening(Record):
    """A gain in pass@1 in two parts, which add up to it."""

    explained: ClassVar[str] = (
        "Sharpening: what it gave as one answer of several before, it now gives more often, as at "
        "a lower temperature."
    )
    temperature: float
    """Of the evaluation."""
    best_temperature: float
    """Where the model before training has its highest pass@1."""
    tried: tuple[float, ...]
    best: Interval
    """pass@1 of the model before training there."""
    gain: Difference
    sharpening: Difference
    not_sharpening: Difference

    @computed_field
    @property
    def sentence(self) -> str:
        change = f"change in pass@1 at temperature {setting(self.temperature)}"
        change = f"{change}, {_text(self.gain)} points,"
        if not self.gain.differs or self.gain.value < 0:
            why = "a loss" if self.gain.differs else "not significant"
            return f"The {change} is {why}, so it is not divided."
        best = f"{percent(self.best.value)} % {interval(self.best.low, self.best.high, percent)}"
        if self.best_temperature == self.temperature:
            others = listed([setting(each) for each in self.tried if each != self.temperature])
            return (
                f"None of the {change} is sharpening: before training {best} is the model's best, "
                f"and it does no better at {others}."
            )
        return (
            f"Of the {change} {_text(self.sharpening)} is sharpening and "
            f"{_text(self.not_sharpening)} is not: before training the model's best is {best}, at "
            f"temperature {setting(self.best_temperature)}."
        )


def _text(of: Difference) -> str:
    return f"{points(of.value)} {interval(of.low, of.high, points)}"


def sharpening(before: Solved, after: Solved) -> Sharpening | None:
    """The parts of a gain; None if the model before training was asked at one temperature alone,
    or no longer on the problems of the model after it. Of equal temperatures the evaluation's own
    is the best, then the first."""
    temperature = next(iter(before))
    own, then = before[temperature], after.get(temperature)
    if len(before) < 2 or then is None or len(then) != len(own):
        return None
    best = max(before, key=lambda each: round(float(np.mean(before[each])), 12))
    reached = before[best]
    return Sharpening(
        temperature=temperature,
        best_temperature=best,
        tried=tuple(before),
        best=mean_interval(reached),
        gain=paired(then, own),
        sharpening=paired(reached, own),
        not_sharpening=paired(then, reached),
    )

"""Choose a setting for each method before it is compared, on other seeds and other problems than
those of the final runs.

Every value of the grid has the same number of runs, and the value of the highest mean is chosen.
While that is the smallest or the largest value that was tried, one more is tried, as far beyond
as the best is from its neighbour, at most FURTHER times.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isclose

import numpy as np

from ictcli.compare.design import Design, RunSpec, tuning_spec
from ictcli.compare.launch import Summaries
from ictcli.compare.variants import Grid, numbers_of
from ictcli.errors import NothingFinishedError, UserError

METRIC = "pass@1"
RUNS = 3
FURTHER = 6

Reached = Mapping[str, float] | None
"""What a run reached, by metric; None: it failed."""
Tries = Mapping[str, Sequence[Reached]]
"""By override, what its runs reached."""
Tuned = Mapping[str, Tries]
"""By variant."""


@dataclass(frozen=True)
class Tuning:
    """How the variants of a design are tuned."""

    design: Design
    grid: Grid
    runs: int = RUNS
    """Runs of each value."""

    @property
    def first(self) -> list[RunSpec]:
        """The runs of the grid as it is typed."""
        return [
            tuning_spec(self.design, variant, override, number)
            for number in range(self.runs)
            for variant in self.design.variants
            for override in self.grid.overrides
        ]

    def tune(self, train: Callable[[Sequence[RunSpec]], Summaries]) -> Tuned:
        """Return each variant's results; `train` gives the summaries of those that finish."""
        tuned: dict[str, dict[str, list[Reached]]] = {
            variant.label: {} for variant in self.design.variants
        }
        while True:
            specs, refused = list[RunSpec](), False
            for variant in self.design.variants:
                tries = tuned[variant.label]
                for override in next_values(tries, self.grid):
                    try:
                        numbers = range(self.runs)
                        specs += [tuning_spec(self.design, variant, override, n) for n in numbers]
                    except UserError:
                        if override in self.grid.overrides:
                            raise
                        refused = True  # no recipe takes such a value
                        tries[override] = list[Reached]([None])
            if not specs and not refused:
                return tuned
            summaries = train(specs)
            for spec in specs:
                summary = summaries.get(spec.folder)
                reached = summary and {name: of.value for name, of in summary.after.items()}
                tuned[spec.variant.label].setdefault(spec.trying, []).append(reached)


def chosen_of(tuned: Tuned) -> dict[str, str]:
    """Return the override of each variant; those without a finished run are left out.
    NothingFinishedError without any."""
    if chosen := {label: best for label, tries in tuned.items() if (best := best_of(tries))}:
        return chosen
    raise NothingFinishedError(
        "Every tuning run failed.", "fix what the lines above say, or leave --tune out"
    )


def next_values(tries: Tries, grid: Grid) -> list[str]:
    """Return the overrides that tuning wants next; none at its end."""
    if new := [override for override in grid.overrides if override not in tries]:
        return new
    beyond = _beyond(tries, grid)
    return [beyond] if beyond else []


def means_of(tries: Tries) -> dict[str, dict[str, float]]:
    """Return the mean of each metric by override with a finished run, in order of value."""
    finished = {override: [run for run in runs if run] for override, runs in tries.items()}
    return {
        override: {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
        for override in in_order(finished)
        if (runs := finished[override])
    }


def in_order(overrides: Iterable[str]) -> list[str]:
    """Return overrides by their values, where all are numbers."""
    overrides = list(overrides)
    numbers = numbers_of(overrides) or {}
    return sorted(overrides, key=lambda override: numbers.get(override, 0.0))


def best_of(tries: Tries) -> str | None:
    """Return the override of the highest mean of METRIC (of the first k, if 1 is not evaluated),
    the first of equals."""
    means = {override: of.get(METRIC, next(iter(of.values())))
             for override, of in means_of(tries).items()}  # fmt: skip
    return max(means, key=lambda override: round(means[override], 12), default=None)


def _beyond(tries: Tries, grid: Grid) -> str | None:
    """Return the next value beyond the best, if that is at an end of the values with a finished run
    and differs from its neighbour."""
    means, best = means_of(tries), best_of(tries)
    numbers = numbers_of(means)
    if best is None or numbers is None or len(means) < 2:
        return None
    if not all(0 < number < inf for number in numbers.values()):
        return None
    order = list(means)
    if best not in (order[0], order[-1]) or len(tries) >= len(grid.overrides) + FURTHER:
        return None
    inner = order[1] if best == order[0] else order[-2]
    further = numbers[best] ** 2 / numbers[inner]
    tried = (numbers_of(tries) or {}).values()
    if means[best] == means[inner] or any(isclose(n, further, rel_tol=1e-6) for n in tried):
        return None
    return f"{grid.key}={further:.6g}"

"""Choose a setting for each variant, with other seeds and other problems than the final runs.

Every value of the grid has the same number of runs, and the value with the highest mean is chosen.
As long as the best value is the smallest or the largest, a value beyond it is tried, at most
FURTHER times. The ratio of the new value to the best is that of the best to the value next to it.
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
"""The scores of a run by metric; None if it failed."""
Tries = Mapping[str, Sequence[Reached]]
"""The scores of the runs of each override that was tried."""
Tuned = Mapping[str, Tries]
"""The tries of each variant, by label."""


@dataclass(frozen=True)
class Tuning:
    """How the variants of a design are tuned."""

    design: Design
    grid: Grid
    runs: int = RUNS
    """Number of runs of each value."""

    @property
    def first(self) -> list[RunSpec]:
        """Return the runs for the values that the user typed."""
        return [
            tuning_spec(self.design, variant, override, number)
            for number in range(self.runs)
            for variant in self.design.variants
            for override in self.grid.overrides
        ]

    def tune(self, train: Callable[[Sequence[RunSpec]], Summaries]) -> Tuned:
        """Return the scores of all tuning runs. `train` trains runs, and returns the summaries."""
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
                        refused = True  # a value beyond the grid that the recipe does not allow
                        tries[override] = list[Reached]([None])
            if not specs and not refused:
                return tuned
            summaries = train(specs)
            for spec in specs:
                summary = summaries.get(spec.folder)
                reached = summary and {name: score.value for name, score in summary.after.items()}
                tuned[spec.variant.label].setdefault(spec.trying, []).append(reached)


def chosen_of(tuned: Tuned) -> dict[str, str]:
    """Return the best override by variant label, without variants that have no finished run.
    NothingFinishedError if no tuning run finished."""
    if chosen := {label: best for label, tries in tuned.items() if (best := best_of(tries))}:
        return chosen
    raise NothingFinishedError(
        "Every tuning run failed.", "fix the errors above, or leave --tune out"
    )


def next_values(tries: Tries, grid: Grid) -> list[str]:
    """Return the overrides of a variant to try next; empty when its tuning is complete."""
    if new := [override for override in grid.overrides if override not in tries]:
        return new
    beyond = _beyond(tries, grid)
    return [beyond] if beyond else []


def means_of(tries: Tries) -> dict[str, dict[str, float]]:
    """Return mean scores by override and metric, in order of the overrides' values. Overrides
    without a finished run are left out."""
    finished = {override: [run for run in runs if run] for override, runs in tries.items()}
    return {
        override: {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
        for override in in_order(finished)
        if (runs := finished[override])
    }


def in_order(overrides: Iterable[str]) -> list[str]:
    """Return overrides sorted by value if all values are numbers, else unchanged."""
    overrides = list(overrides)
    numbers = numbers_of(overrides) or {}
    return sorted(overrides, key=lambda override: numbers.get(override, 0.0))


def best_of(tries: Tries) -> str | None:
    """Return the override with the highest mean METRIC (the first metric, if METRIC is not
    evaluated). On a tie the first override wins."""
    means = {override: scores.get(METRIC, next(iter(scores.values())))
             for override, scores in means_of(tries).items()}  # fmt: skip
    return max(means, key=lambda override: round(means[override], 12), default=None)


def _beyond(tries: Tries, grid: Grid) -> str | None:
    """Return an override with a value beyond the best one, if the best is the smallest or the
    largest with a finished run and its score differs from its neighbour's; else None."""
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

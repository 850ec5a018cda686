"""A setting chosen for every variant alike, before the runs that count.

Each value of the grid is run once, then the better half of them again, and again (successive
halving, by runs), but never fewer than three, nor without the best one's neighbours, whose one run
may have crashed. While the best is at an end of the grid, the grid goes on by its own ratio,
unless its runs there ended just as those of the value before: where nothing changes there is no
best. The best is that of the highest pass@1 on the mean of the curves that `rate_curve` draws; how
far these disagree about the best is a variance of what the method reaches, and enters its intervals
(`extra_of`).

A folder that was tuned before this was the rule has no tuning.json: there every value was run once
and the best run's was taken, and so it stays.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isclose, log, nan
from operator import eq
from pathlib import Path

import numpy as np

from ictcli.compare.design import Design, RunSpec, tuning_spec
from ictcli.compare.launch import Summaries, read_summary
from ictcli.compare.rate_curve import draws_of, mean_of
from ictcli.compare.variants import Grid, numbers_of
from ictcli.errors import NothingFinishedError, UserError
from ictcli.files import write_json
from ictcli.files.reading import parse_json, read_text
from ictcli.runs.records import Summary
from ictcli.types import FloatArray

METRIC = "pass@1"
RUNS = 3
LEAST = 3
"""Values that are never dropped."""
FURTHER = 6
"""Values that a grid goes on by at the most."""

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
    """Of each value that is still in question."""

    @property
    def is_old(self) -> bool:
        """Whether the folder was tuned with one run a value and no curve."""
        folder = self.design.folder
        return (folder / "tune").exists() and not self.record.exists()

    @property
    def record(self) -> Path:
        return self.design.folder / "tuning.json"

    def begin(self) -> None:
        """Note that the folder is tuned as it is today."""
        if not self.is_old and not self.record.exists():
            write_json(self.record, {"runs": self.runs, "level": True})

    @property
    def _stops(self) -> bool:
        """Whether a grid ends where nothing changes, as it did not in folders of before."""
        return not self.record.exists() or "level" in parse_json(read_text(self.record))

    @property
    def _tried(self) -> Design:
        """As tuning runs it: a choice needs no other temperatures."""
        without = () if self.is_old else ("eval.temperatures=[]",)
        return replace(self.design, overrides=(*self.design.overrides, *without))

    @property
    def first(self) -> list[RunSpec]:
        """The runs of the grid as it is typed, the most that successive halving makes of it."""
        return [
            tuning_spec(self._tried, variant, override, number)
            for number in range(1 if self.is_old else self.runs)
            for variant in self.design.variants
            for override in self.grid.overrides
        ]

    def tune(self, train: Callable[[Sequence[RunSpec]], Summaries]) -> Tuned:
        """What each variant's runs reached; `train` gives the summaries of those that finish."""
        runs, stops = 1 if self.is_old else self.runs, self._stops
        tuned: dict[str, dict[str, list[Reached]]] = {
            variant.label: {} for variant in self.design.variants
        }
        while True:
            specs, refused = list[RunSpec](), False
            for variant in self.design.variants:
                tries = tuned[variant.label]
                for override, number in next_runs(tries, self.grid, runs, stops=stops):
                    try:
                        specs.append(tuning_spec(self._tried, variant, override, number))
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

    def chosen(self, tuned: Tuned) -> dict[str, str]:
        """By variant; those without a finished run are left out. NothingFinishedError without
        any."""
        best = best_run if self.is_old else best_of
        if found := {label: of for label, tries in tuned.items() if (of := best(tries))}:
            return found
        raise NothingFinishedError(
            "Every tuning run failed.", "mend what the lines above say, or leave --tune out"
        )

    def earlier(self) -> dict[str, str]:
        """What was chosen for each variant of which all tuning runs are done, or failed; those of
        which all failed are to be tuned again."""

        def read(specs: Sequence[RunSpec]) -> Summaries:
            found = {spec.folder: read_summary(spec.folder) for spec in specs}
            done = {folder: each for folder, each in found.items() if isinstance(each, Summary)}
            if not all((folder / "failure.json").exists() for folder in found.keys() - done):
                raise LookupError
            return done

        chosen: dict[str, str] = {}
        for variant in self.design.variants:
            alone = replace(self, design=replace(self.design, variants=(variant,)))
            try:
                chosen |= alone.chosen(alone.tune(read))
            except (LookupError, NothingFinishedError):
                continue
        return chosen


def next_runs(tries: Tries, grid: Grid, runs: int, *, stops: bool = True) -> list[tuple[str, int]]:
    """The runs that tuning wants next, each an override and how many it has had; none at its end.
    `runs` of each value in question; with 1, those of the grid and no others. `stops`: the grid
    does not go on where nothing changes."""
    if new := [override for override in grid.overrides if override not in tries]:
        return [(override, 0) for override in new]
    finished = _finished(tries)
    if runs == 1 or not finished:
        return []
    means = _means(finished)
    ranked = sorted(means, key=lambda override: -means[override])
    if further := _beyond(ranked[0], finished, tries, grid, stops=stops):
        return [(further, 0)]
    at = list(finished).index(ranked[0])
    beside = list(finished)[max(at - 1, 0) : at + 2]
    for done in range(1, runs):
        kept = dict.fromkeys([*ranked[: max(LEAST, ceil(len(ranked) / 2**done))], *beside])
        if missing := [(each, len(tries[each])) for each in kept if len(tries[each]) <= done]:
            return missing
    return []


def best_of(tries: Tries) -> str | None:
    """The override that the mean of the curves is highest at, the first of equals."""
    means = _means(_finished(tries))
    return max(means, key=lambda override: means[override], default=None)


def best_run(tries: Tries) -> str | None:
    """The override of the best run, the first of equals."""
    finished = _finished(tries)
    best = {
        each: max(run[metric_of(finished)] for run in its if run) for each, its in finished.items()
    }
    return max(best, key=lambda override: best[override], default=None)


def extra_of(tries: Tries, chosen: str) -> dict[str, float]:
    """By metric, and for pass@k - pass@1 of each, the variance of what another value, the best on a
    curve that the runs allow, reaches beyond the chosen one. Its mean is left out: methods that
    were tuned alike miss about as much, and of a difference that is no part. The curves of all
    metrics are of the same random numbers: that they go together is an assumption."""
    finished = _finished(tries)
    if chosen not in finished:
        return {}
    metric, at = metric_of(finished), list(finished).index(chosen)
    best = _curves(finished, metric).argmax(axis=1)
    extra: dict[str, float] = {}
    for name in next(run for run in finished[chosen] if run):
        for less in ("", metric) if name != metric else ("",):
            curves = _curves(finished, name, less)
            beyond = np.take_along_axis(curves, best[:, None], axis=1)[:, 0] - curves[:, at]
            extra[f"{name} - {less}" if less else name] = float(beyond.var())
    return extra


def curve_of(tries: Tries) -> dict[str, tuple[float, float, float]]:
    """By override the mean of the curves and the ends that hold 95 % of them, shares within 0 and
    1."""
    finished = _finished(tries)
    if not finished:
        return {}
    means = list(_means(finished).values())
    ends = np.quantile(_curves(finished, metric_of(finished)), [0.025, 0.975], axis=0)
    rows = np.clip([means, *ends], 0.0, 1.0).T.tolist()
    return {each: (mean, low, high) for each, (mean, low, high) in zip(finished, rows, strict=True)}


def metric_of(finished: Tries) -> str:
    """pass@1, or the first k, if 1 is not evaluated."""
    first = next(run for its in finished.values() for run in its if run)
    return METRIC if METRIC in first else next(iter(first))


def _finished(tries: Tries) -> Tries:
    """The values with a finished run, those with a number in its order."""
    found = {override: runs for override, runs in tries.items() if any(runs)}
    numbers = _numbers(found) or {}
    return {each: found[each] for each in sorted(found, key=lambda each: numbers.get(each, 0))}


def _means(finished: Tries) -> dict[str, float]:
    if not finished:
        return {}
    means = _curves(finished, metric_of(finished), by=mean_of)
    return dict(zip(finished, means.round(12).tolist(), strict=True))


def _curves(
    finished: Tries, metric: str, less: str = "", *, by: Callable[..., FloatArray] = draws_of
) -> FloatArray:
    """Of the curves of a metric, less another, at the values in their order: (DRAWS, K) draws, or
    `by` `mean_of` their mean (K,)."""

    def share(run: Reached) -> float:
        return run[metric] - (run[less] if less else 0) if run else nan

    runs = [[share(run) for run in its] for its in finished.values()]
    numbers = _numbers(finished)
    if numbers is None or len(numbers) < 2:
        return by(None, runs)
    logs = [log(number) for number in numbers.values()]
    step = float(np.median(np.diff(logs)))
    return by([each / step for each in logs], runs)


def _numbers(overrides: Iterable[str]) -> dict[str, float] | None:
    """The values, if all are above 0: a curve runs over their logarithms."""
    numbers = numbers_of(overrides)
    return numbers if numbers and all(0 < number < inf for number in numbers.values()) else None


def _beyond(best: str, finished: Tries, tries: Tries, grid: Grid, *, stops: bool) -> str | None:
    """The next value beyond the best, if that is at an end of the values that were tried."""
    numbers, order = _numbers(finished), list(finished)
    if numbers is None or len(order) < 2 or len(tries) >= len(grid.overrides) + FURTHER:
        return None
    if best not in (order[0], order[-1]):
        return None
    inner = order[1] if best == order[0] else order[-2]
    if stops and all(map(eq, tries[best], tries[inner])):
        return None
    further = numbers[best] ** 2 / numbers[inner]
    tried = [number for each in tries for number in (numbers_of([each]) or {}).values()]
    if any(isclose(each, further, rel_tol=1e-6) for each in tried):
        return None
    return f"{grid.key}={further:.6g}"

"""What accuracy costs: the share of correct rollouts while training, against what a run had spent
by the end of each step.

Spent are rollouts, CPU seconds (of sampling and the update, as timings.jsonl has them) and, with
`--cost-of`, the operations that the steps would take on another model, in units of one dense step.
Runs are compared up to the budget, the least that any of them spent in all, so that each was seen
that far. All rules are ours.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ictcli.compare.finished import FinishedRun, VariantRuns
from ictcli.compare.run_means import Curve, Spent, by_seed, curve, smoothed
from ictcli.compare.statistics import over_seeds
from ictcli.engine.shape import ModelShape
from ictcli.evaluation.record import Record
from ictcli.planning.time_estimate import step_operations
from ictcli.tables import Span
from ictcli.types import FloatArray

CORRECT = "correct"
ROLLOUTS, CPU = "rollouts", "CPU seconds"
LEAST_GAIN = 0.1
LEAST_ERRORS = 3
"""A baseline that gains less than LEAST_GAIN, or than so many standard errors of its curve, has no
threshold: runs would cross one by chance. Curves without a trend gain as much in under 5 %."""
REACHED, TO_THRESHOLD, AREA, AT_BUDGET = "reached", "to threshold", "area", "at budget"
Runs = Mapping[str, Sequence[FinishedRun]]
"""By label of the variant."""


class Figure(Record):
    """Means over the seeds of each variant, and the paired differences from the baseline, each with
    its 95 % interval."""

    values: Mapping[str, Span]
    differences: Mapping[str, Span]


class Spending(Record):
    """What was reached for what was spent, in one unit."""

    budget: float
    step: Mapping[str, float]
    """By variant, the mean of a step."""
    reached: Mapping[str, int]
    """By variant, how many runs reached the threshold within the budget."""
    figures: Mapping[str, Figure]
    """`to threshold`: what was spent until the smoothed share of correct rollouts reached it; a
    run that does not counts with the whole budget. `area`: the mean share over what was spent, up
    to the budget. `at budget`: the smoothed share there."""


class Efficiency(Record):
    threshold: float | None
    """Half-way from where the baseline's smoothed curve, the mean over seeds, begins to its best;
    None where it gains too little (see LEAST_ERRORS)."""
    window: int
    """Steps that a smoothed figure is the mean of."""
    units: Mapping[str, Spending]
    curves: Mapping[str, Mapping[str, Curve]]
    """By metric and variant: `correct`, smoothed, and pass@k of evaluations while training."""
    model: str | None = None
    """At whose cost the last unit is; None where none was asked for, or lengths are not known."""
    sampling: float | None = None
    """Share of sampling in the cost of a dense step of that model."""


def window(steps: int) -> int:
    """About a tenth of the steps, and odd, so that it has a middle."""
    return 1 + 2 * (steps // 20)


def efficiency(
    variants: Sequence[VariantRuns],
    base: str,
    seeds: Sequence[int],
    prompt: float,
    cost_of: Mapping[str, ModelShape],
) -> Efficiency | None:
    """Of the variants that do not end with the warm-up; None where the share of correct rollouts
    was not recorded. A unit that some run did not record is left out. `prompt`: mean tokens of a
    prompt."""
    runs = {each.label: each.runs for each in variants if not each.variant.stops}
    every = [run for its in runs.values() for run in its]
    if base not in runs or any(np.isnan(run.series(CORRECT)).any() for run in every):
        return None
    width = window(min(run.summary.steps for run in every))
    threshold = threshold_of(np.mean([run.series(CORRECT) for run in runs[base]], axis=0), width)

    steps = {
        ROLLOUTS: [_rollouts(run) for run in every],
        CPU: [np.array([line.cpu_seconds for line in run.timings], float) for run in every],
    }
    sampling = None
    for name, shape in cost_of.items():
        sampled, updated = _operations(runs[base][0], shape, prompt, dense=True)
        dense = sampled + updated
        steps[f"dense steps of {name}"] = [
            np.add(*_operations(run, shape, prompt)) / dense for run in every
        ]
        sampling = float(sampled[0] / dense[0])
    folders = [run.spec.folder for run in every]
    spent = {
        unit: dict(zip(folders, map(np.cumsum, its), strict=True))
        for unit, its in steps.items()
        if not np.isnan(np.concatenate(its)).any()
    }
    model = next((name for name in cost_of if f"dense steps of {name}" in spent), None)
    passes = f"eval/pass@{min(every[0].spec.recipe.eval.k)}"
    curves = {
        name: {label: curve(its, name, wide, spent) for label, its in runs.items()}
        for name, wide in ((CORRECT, width), (passes, 1))
    }
    return Efficiency(
        threshold=threshold,
        window=width,
        units={
            unit: _spending(runs, base, seeds, its, width, threshold) for unit, its in spent.items()
        },
        curves={name: rows for name, rows in curves.items() if any(c.step for c in rows.values())},
        model=model,
        sampling=sampling if model else None,
    )


def threshold_of(correct: FloatArray, width: int) -> float | None:
    """See `Efficiency.threshold`. `correct`: (steps,) means over the seeds. Its noise is what one
    step differs from the next by; the curve begins with half a window."""
    smooth = smoothed(correct, width)
    noise = np.diff(correct, append=correct[-1:]).std() / np.sqrt(2)
    error = noise * np.sqrt(1 / (width // 2 + 1) + 1 / width)
    if smooth.max() - smooth[0] < max(LEAST_GAIN, LEAST_ERRORS * error):
        return None
    return float(smooth[0] + smooth.max()) / 2


def _rollouts(run: FinishedRun) -> FloatArray:
    """(steps,) sampled, those of prompts drawn again included."""
    recipe = run.spec.recipe
    own = np.full(run.summary.steps, recipe.prompts * recipe.group, float)
    return own + run.series("redrawn") if recipe.sampling.redraw else own


def _operations(
    run: FinishedRun, shape: ModelShape, prompt: float, *, dense: bool = False
) -> tuple[FloatArray, FloatArray]:
    """(steps,) of sampling and the updates; with `dense` (1,) of the first step, were every token
    trained."""
    length, signal, kept = map(run.series, ("length", "groups_with_signal", "share_kept"))
    if dense:
        length, signal, kept = length[:1], np.ones(1), np.ones(1)
    recipe = run.spec.recipe
    sampled, updated = step_operations(recipe, shape, prompt, length, signal, kept)
    if not dense:
        sampled = sampled * _rollouts(run) / (recipe.prompts * recipe.group)
    return sampled, updated


def figures(
    correct: FloatArray, spent: FloatArray, budget: float, width: int, threshold: float | None
) -> dict[str, float]:
    """The figures of a run, by name, of (steps,) shares of correct rollouts and what was spent by
    the end of each step; and whether it reached the threshold, 0 or 1."""
    smooth = smoothed(correct, width)
    shares = np.diff(np.minimum(spent, budget), prepend=0.0) / budget
    found = {AREA: float(shares @ correct), AT_BUDGET: float(np.interp(budget, spent, smooth))}
    if threshold is None:
        return found
    above = spent[(smooth >= threshold) & (spent <= budget)]
    when = float(above[0]) if len(above) else budget
    return {REACHED: float(len(above) > 0), TO_THRESHOLD: when, **found}


def _spending(
    runs: Runs, base: str, seeds: Sequence[int], spent: Spent, width: int, threshold: float | None
) -> Spending:
    budget = float(min(its[-1] for its in spent.values()))
    fixed = budget, width, threshold
    found = {
        label: {
            run.spec.seed: figures(run.series(CORRECT), spent[run.spec.folder], *fixed)
            for run in its
        }
        for label, its in runs.items()
    }
    reached = {
        label: int(sum(each.pop(REACHED) for each in its.values()))
        for label, its in found.items()
        if threshold is not None
    }

    def figure(name: str) -> Figure:
        rows = {
            label: by_seed({seed: each[name] for seed, each in its.items()}, seeds)
            for label, its in found.items()
        }
        most = budget if name == TO_THRESHOLD else 1.0
        differences = {
            label: _span(values - rows[base], -most, most)
            for label, values in rows.items()
            if label != base
            and not np.isnan(values - rows[base]).all()
            and (name != TO_THRESHOLD or reached[label] or reached[base])
        }  # of runs that all counted with the budget, 0 would say nothing
        values = {label: _span(values, 0.0, most) for label, values in rows.items()}
        return Figure(values=values, differences=differences)

    return Spending(
        budget=budget,
        step={
            label: float(np.mean([spent[run.spec.folder][-1] / run.summary.steps for run in its]))
            for label, its in runs.items()
        },
        reached=reached,
        figures={name: figure(name) for name in found[base][runs[base][0].spec.seed]},
    )


def _span(values: FloatArray, least: float, most: float) -> Span:
    return over_seeds(values[~np.isnan(values)], least, most)

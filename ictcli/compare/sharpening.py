"""Of a comparison's runs: greedy accuracy, accuracy among readable answers, and how much of each
variant's gain is sharpening."""

from collections.abc import Sequence

import numpy as np

from ictcli.compare.finished import VariantRuns
from ictcli.compare.statistics import BEFORE
from ictcli.evaluation.sharpening import Sharpening, Solved, sharpening
from ictcli.types import FloatArray


def greedy_scores(variants: Sequence[VariantRuns], seeds: Sequence[int]) -> dict[str, FloatArray]:
    """By label whether each problem's greedy answer is right, (S, N), and first of the models
    before training, a row each; NaN where a run is missing. Without those not asked greedily."""
    every = [run for each in variants for run in each.runs]
    before = {run.spec.recipe.model: run.before.solved(run.spec.recipe) for run in every}
    rows = {BEFORE: [solved[0.0] for solved in before.values() if 0.0 in solved]}
    for each in variants:
        asked = {run.spec.seed: run.after.solved(each.recipe) for run in each.runs}
        known = {seed: solved[0.0] for seed, solved in asked.items() if 0.0 in solved}
        missing = np.full(each.runs[0].after.problems, np.nan)
        rows[each.label] = [known.get(seed, missing) for seed in seeds] if known else []
    return {label: np.array(its) for label, its in rows.items() if its}


def readable_accuracies(variants: Sequence[VariantRuns]) -> dict[str, float]:
    """By label, the mean over the runs with a readable answer after training."""
    shares = {
        each.label: [
            share for run in each.runs if (share := run.after.accuracy_readable) is not None
        ]
        for each in variants
    }
    return {label: float(np.mean(of)) for label, of in shares.items() if of}


def sharpenings(variants: Sequence[VariantRuns]) -> dict[str, Sharpening]:
    """By label, of the means over the runs of a variant; without variants whose runs were evaluated
    at one temperature alone."""
    found: dict[str, Sharpening] = {}
    for each in variants:
        before = _mean([run.before.solved(each.recipe) for run in each.runs])
        after = _mean([run.after.solved(each.recipe) for run in each.runs])
        if parts := sharpening(before, after):
            found[each.label] = parts
    return found


def _mean(runs: Sequence[Solved]) -> Solved:
    """At the temperatures that all runs have."""
    shared = [each for each in runs[0] if all(each in run for run in runs)]
    return {each: np.mean([run[each] for run in runs], axis=0) for each in shared}

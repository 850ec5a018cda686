"""Note what a reader of a comparison has to know besides its figures: ceilings, and what is missing
or was made otherwise."""

from collections.abc import Sequence

import numpy as np

from ictcli.compare.finished import Runs
from ictcli.compare.plan import ComparisonPlan
from ictcli.compare.statistics import Scores, paired
from ictcli.compare.tuning import Tuned, best_of
from ictcli.files.origin import differing
from ictcli.runs.read import read_environment
from ictcli.tables.numbers import listed

CEILING = 0.95
"""A mean above it is at its ceiling, one below 1 - CEILING at its floor: methods can hardly differ
there."""
MADE_WITH = {"ictcli", "python", "libraries", "platform", "engine"}
"""The fields of environment.json that say what a run is made with."""


def notes_of(plan: ComparisonPlan, runs: Runs, scores: Scores, tuned: Tuned) -> list[str]:
    """Return sentences on variants without a finished run (or tuning run), on figures at their
    ceiling or floor, on runs made with other programs or machines than others, on warm-ups that
    take every step, and on contrasts that share no seed."""
    notes: list[str] = []
    for label in [variant.label for variant in plan.design.variants if variant.label not in runs]:
        is_tuned = label not in tuned or best_of(tuned[label])
        missing = "runs" if is_tuned else "tuning runs"
        notes.append(f"{label} is left out: none of its {missing} finished.")
    notes += at_bounds(scores, list(runs))
    environments = [read_environment(run.spec.folder) for each in runs.values() for run in each]
    made = [each.model_dump(include=MADE_WITH, exclude_defaults=True) for each in environments]
    if differ := list(differing(made)):
        notes.append(
            f"The runs did not all have the same {listed(differ)}: their times cannot be compared, "
            "and figures may differ for that reason too."
        )
    recipes = {label: each[0].spec.recipe for label, each in runs.items()}
    if dense := [label for label, of in recipes.items() if of.dense_steps >= of.steps]:
        notes.append(
            f"The dense warm-up takes every step of {', '.join(dense)}: these runs trained every "
            "token, so the methods' choices of tokens were not compared."
        )
    passes = next(iter(scores.values()))
    for each in plan.contrasts:
        has_both = each.variant in passes and each.rival in passes
        if has_both and not paired(passes[each.variant], passes[each.rival]):
            notes.append(f"{each.variant} and {each.rival} have no seed that both finished.")
    return notes


def at_bounds(scores: Scores, labels: Sequence[str]) -> list[str]:
    """Return a sentence for each metric so near 0 or 1 that methods can hardly differ."""
    notes: list[str] = []
    for metric, cells in scores.items():
        means = {label: float(np.nanmean(cells[label])) for label in labels}
        high = [label for label, mean in means.items() if mean > CEILING]
        low = [label for label, mean in means.items() if mean < 1 - CEILING]
        for bound, near in (("ceiling", high), ("floor", low)):
            if near:
                notes.append(
                    f"{metric} of {listed(near)} is at its {bound}: differences there can hardly "
                    "be seen."
                )
    return notes

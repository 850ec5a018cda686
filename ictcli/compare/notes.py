"""Notes of a report on ceilings, missing runs, and runs made with other software or hardware."""

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
"""A note says that a mean above this is at its ceiling, or one below 1 - CEILING at its floor."""
MADE_WITH = {"ictcli", "python", "libraries", "platform", "engine"}
"""The fields of environment.json that describe software and hardware."""


def notes_of(plan: ComparisonPlan, runs: Runs, scores: Scores, tuned: Tuned) -> list[str]:
    """Return notes on missing variants, metrics at their ceiling or floor, different software or
    hardware of runs, warm-ups that take every step, and contrasts without a common seed."""
    notes: list[str] = []
    for label in [variant.label for variant in plan.design.variants if variant.label not in runs]:
        is_tuned = label not in tuned or best_of(tuned[label])
        missing = "runs" if is_tuned else "tuning runs"
        notes.append(f"{label} is left out: none of its {missing} finished.")
    notes += at_bounds(scores, list(runs))
    finished = [run for of_variant in runs.values() for run in of_variant]
    environments = [read_environment(run.spec.folder) for run in finished]
    machines = [e.model_dump(include=MADE_WITH, exclude_defaults=True) for e in environments]
    if differ := list(differing(machines)):
        notes.append(
            f"The runs do not all have the same {listed(differ)}: their times cannot be compared, "
            "and other results may differ for this reason."
        )
    recipes = {label: of_variant[0].spec.recipe for label, of_variant in runs.items()}
    if dense := [label for label, r in recipes.items() if r.dense_steps >= r.steps]:
        notes.append(
            f"The dense warm-up covers every step of {', '.join(dense)}: these runs trained every "
            "token, so the methods' choices of tokens were not compared."
        )
    passes = next(iter(scores.values()))
    for pair in plan.contrasts:
        has_both = pair.variant in passes and pair.rival in passes
        if has_both and not paired(passes[pair.variant], passes[pair.rival]):
            notes.append(f"{pair.variant} and {pair.rival} have no seed that both finished.")
    return notes


def at_bounds(scores: Scores, labels: Sequence[str]) -> list[str]:
    """Return a note on each metric whose mean is so near 0 or 1 that methods can hardly differ."""
    notes: list[str] = []
    for metric, cells in scores.items():
        means = {label: float(np.nanmean(cells[label])) for label in labels}
        high = [label for label, mean in means.items() if mean > CEILING]
        low = [label for label, mean in means.items() if mean < 1 - CEILING]
        for bound, near in (("ceiling", high), ("floor", low)):
            if near:
                notes.append(
                    f"{metric} of {listed(near)} is at its {bound}: differences can hardly be "
                    "seen there."
                )
    return notes

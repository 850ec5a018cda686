"""What a reader of a comparison has to know beside its figures: ceilings, runs that crashed, what
is missing or was made otherwise.

A run crashed if it lost what it could: by its own curve over training, the share of rollouts that
are correct, or that have a readable answer, ends under half of its own best, and by more than
chance. So a run is held to itself alone, and no bound lies between runs that are alike. Ours.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter

import numpy as np

from ictcli.compare.finished import VariantRuns
from ictcli.compare.plan import ComparisonPlan
from ictcli.compare.statistics import Scores, paired
from ictcli.compare.tuning import Tuned, best_of
from ictcli.runs.read import read_environment
from ictcli.runs.records import Environment
from ictcli.tables.numbers import listed
from ictcli.types import FloatArray

CEILING = 0.95
"""A mean above it is at its ceiling, one below 1 - CEILING at its floor: methods can hardly differ
there."""
PART = 0.5
"""A crashed run ends under this part of its best."""
CHANCE = 3.0
"""Standard errors over steps that chance alone does not explain."""

Crashed = Mapping[str, Sequence[int]]
"""By variant, the places of the seeds of runs that crashed; variants without one are left out."""
MADE_WITH = {
    "version of ictcli": ("ictcli",),
    "version of Python": ("python",),
    "libraries": ("libraries",),
    "platform": ("platform",),
    "engine": ("engine.engine",),
    "precision": ("engine.dtype", "engine.bits"),
    "kernels": ("engine.kernels",),
    "device": ("engine.device", "engine.device_name"),
    "threads": ("engine.threads",),
}
"""What runs are made with, and the fields of environment.json that say so."""


def crashed_runs(variants: Sequence[VariantRuns], seeds: Sequence[int]) -> dict[str, list[int]]:
    """The places of the seeds of the runs that crashed, by label."""
    found: dict[str, list[int]] = {}
    for run in (run for each in variants for run in each.runs):
        if fell(run.series("correct")) or fell(1 - run.series("unparsed")):
            places = found.setdefault(run.spec.variant.label, [])
            places.append(seeds.index(run.spec.seed))
    return found


def fell(curve: FloatArray) -> bool:
    """Whether a share (steps,) ends under PART of its best, both means over a tenth of the steps,
    by more than chance, of which each step shows as much as it differs from the one before. Runs of
    fewer than 20 steps cannot show it."""
    known = curve[np.isfinite(curve)]
    width = len(known) // 10
    if width < 2:
        return False
    means = np.convolve(known, np.full(width, 1 / width), "valid")
    error = np.sqrt(np.square(np.diff(known)).mean() / width)  # of the difference of two means
    fall = means.max() - means[-1]
    return bool(means[-1] < PART * means.max() and fall > CHANCE * error)


def notes_of(
    plan: ComparisonPlan, variants: Sequence[VariantRuns], scores: Scores, tuned: Tuned
) -> list[str]:
    """Sentences on variants without a finished run (or tuning run), on figures at their ceiling or
    floor, on runs made with other programs or machines than others, on warm-ups that take every
    step, and on contrasts that share no seed."""
    finished = [each.variant for each in variants]
    notes: list[str] = []
    for variant in plan.design.variants:
        if variant not in finished:
            is_tuned = variant.label not in tuned or best_of(tuned[variant.label])
            runs = "runs" if is_tuned else "tuning runs"
            notes.append(f"{variant.label} is left out: none of its {runs} finished.")
    notes += at_bounds(scores, [each.label for each in finished])
    environments = [read_environment(run.spec.folder) for each in variants for run in each.runs]
    if differ := [what for what, fields in MADE_WITH.items() if _differs(environments, fields)]:
        notes.append(
            f"The runs were not all made with the same {listed(differ)}: the times of some "
            "say nothing beside those of others, and figures may differ for that reason too."
        )
    if dense := [each.label for each in variants if each.is_dense]:
        notes.append(
            f"The dense warm-up takes every step of {', '.join(dense)}: such runs trained every "
            "token, and methods that differ in their choice alone are one."
        )
    passes = next(iter(scores.values()))
    for each in plan.contrasts:
        has_both = each.variant in passes and each.rival in passes
        if has_both and not paired(passes[each.variant], passes[each.rival]):
            notes.append(f"{each.variant} and {each.rival} have no seed that both finished.")
    return notes


def at_bounds(scores: Scores, labels: Sequence[str]) -> list[str]:
    """A sentence for each metric that is so near 0 or 1 that methods can hardly differ there."""
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


def of_crashes(crashed: Crashed, seeds: Sequence[int]) -> list[str]:
    """A sentence for each variant with runs that crashed."""
    notes: list[str] = []
    for label, places in crashed.items():
        which = listed([str(seeds[place]) for place in places])
        runs = f"The run of seed {which}" if len(places) == 1 else f"The runs of seeds {which}"
        notes.append(
            f"{runs} of {label} crashed: what was right, or could be read, fell under half of its "
            "best. The mean is of two kinds of run, which p and intervals do not know."
        )
    return notes


def _differs(environments: Sequence[Environment], fields: Sequence[str]) -> bool:
    value = attrgetter(*fields)
    known = [value(each) for each in environments if value(each) != value(Environment())]
    return any(each != known[0] for each in known)

"""What a reader of a comparison has to know beside its figures: ceilings, runs that crashed, what
is missing or was made otherwise.

A run crashed if it lost what it could: by its own curve over training, the share of rollouts that
are correct, or that have a readable answer, ends under half of its own best, and by more than
chance. So a run is held to itself alone, and no bound lies between runs that are alike. Ours.

The crossed test takes runs to vary about normally, which these do not (`bench/worlds.py`), so the
others are compared too. That says how methods do where they hold, not how often they do.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from operator import attrgetter

import numpy as np

from ictcli.compare.finished import VariantRuns
from ictcli.compare.plan import ComparisonPlan
from ictcli.compare.statistics import Scores, paired
from ictcli.compare.tuning import Tuned, best_run
from ictcli.compare.variants import SUBJECT
from ictcli.runs.read import read_environment
from ictcli.runs.records import Environment
from ictcli.tables.numbers import counted, listed, percent
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


def without(scores: Scores, crashed: Crashed) -> Scores:
    """The scores with the crashed runs missing."""
    held = {
        metric: {label: each.copy() for label, each in of.items()} for metric, of in scores.items()
    }
    for label, places in crashed.items():
        for by_variant in held.values():
            by_variant[label][list(places)] = np.nan
    return held


def caveats(
    scores: Scores, metrics: Sequence[str], labels: Sequence[str], crashed: Crashed
) -> tuple[str, ...]:
    """The ceilings, floors and crashed runs that a comparison touches, a phrase each."""
    phrases: list[str] = []
    for metric in metrics:
        for label in labels:
            mean = float(np.nanmean(scores[metric][label]))
            if not 1 - CEILING <= mean <= CEILING:
                bound = "ceiling" if mean > CEILING else "floor"
                phrases.append(f"{bound}: {metric} of {label} is {percent(mean)} %")
    for label in labels:
        if label in crashed:
            runs = counted(len(crashed[label]), "run")
            phrases.append(f"mixture: {runs} of {label} crashed")
    return tuple(phrases)


def notes_of(
    plan: ComparisonPlan,
    variants: Sequence[VariantRuns],
    scores: Scores,
    base: str,
    tuned: Tuned | None = None,
) -> list[str]:
    """Sentences on a baseline without a finished run, variants without one (or, if they were
    `tuned`, without a tuning run), runs made with other programs or machines than others, warm-ups
    that take every step, and pairs of variants that share no seed. `base` is the label of the
    variant used for the baseline that was asked for."""
    asked, planned = plan.baseline, plan.design.variants
    finished = [each.variant for each in variants]
    notes: list[str] = []
    if not any(asked in (each.label, each.method) for each in finished):
        is_known = any(asked in (each.label, each.method) for each in planned)
        why = "has no finished run" if is_known else "is not among the methods"
        notes.append(f"The baseline {asked} {why}: differences are from {base}.")
    for variant in planned:
        if variant not in finished:
            has_tuned = tuned is None or best_run(tuned.get(variant.label, {}))
            runs = "runs" if has_tuned else "tuning runs"
            notes.append(f"{variant.label} is left out: none of its {runs} finished.")
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
    for pair in combinations(finished, 2):
        first, second = (each.label for each in pair)
        is_judged = base in (first, second) or SUBJECT in (each.method for each in pair)
        if is_judged and not paired(passes[first], passes[second]):
            notes.append(
                f"{first} and {second} have no seed that both finished: nothing is said of their "
                "difference."
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
            "best. The mean is of a mixture of two kinds of run, of which p and intervals "
            "know nothing. Differences without crashed runs stand beside the others, where two "
            "variants have runs left."
        )
    return notes


def of_controls(
    controls: Sequence[tuple[VariantRuns, VariantRuns]], alike: Collection[str]
) -> list[str]:
    """A sentence for each variant whose control did not train as it did; those of `alike` did."""
    return [
        f"{control.label} was trained otherwise than {each.label} while it warmed up: what the "
        f"steps of {each.label} after that added is not known."
        for each, control in controls
        if each.label not in alike
    ]


def _differs(environments: Sequence[Environment], fields: Sequence[str]) -> bool:
    value = attrgetter(*fields)
    known = [value(each) for each in environments if value(each) != value(Environment())]
    return any(each != known[0] for each in known)

"""What a reader of a comparison has to know beside its figures."""

from collections.abc import Collection, Sequence
from itertools import combinations
from operator import attrgetter

from ictcli.compare.caveats import Crashed
from ictcli.compare.finished import VariantRuns
from ictcli.compare.plan import ComparisonPlan, Tuned
from ictcli.compare.statistics import Scores, paired
from ictcli.compare.variants import SUBJECT
from ictcli.runs.read import read_environment
from ictcli.runs.records import Environment
from ictcli.tables.numbers import listed

MADE_WITH = {
    "version of ictcli": ("ictcli",),
    "version of Python": ("python",),
    "libraries": ("libraries",),
    "platform": ("platform",),
    "engine": ("engine.engine",),
    "precision": ("engine.dtype", "engine.bits"),
    "device": ("engine.device", "engine.device_name"),
    "threads": ("engine.threads",),
}
"""What runs are made with, and the fields of environment.json that say so."""


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
            runs = "runs" if tuned is None or tuned.get(variant.label) else "tuning runs"
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
            f"{runs} of {label} crashed: far below its other seeds, or unreadable where they are "
            "not. Its mean is of a mixture of two kinds of run, of which p and intervals know "
            "nothing; differences without crashed runs stand beside the others."
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
    """Whether the fields differ among those that recorded them."""
    value = attrgetter(*fields)
    known = [value(each) for each in environments if value(each) != value(Environment())]
    return any(each != known[0] for each in known)

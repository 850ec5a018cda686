"""What a reader of a comparison has to know beside its figures."""

from collections.abc import Sequence
from itertools import combinations
from operator import attrgetter

from ictcli.compare.claims import SUBJECT
from ictcli.compare.design import Design
from ictcli.compare.finished import FinishedRun
from ictcli.compare.numbers import listed
from ictcli.compare.statistics import Scores, paired
from ictcli.compare.tuning import Tuned
from ictcli.compare.variants import method_of
from ictcli.runs.read import read_environment
from ictcli.runs.records import Environment

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
    design: Design,
    done: Sequence[FinishedRun],
    scores: Scores,
    base: str,
    baseline: str,
    tuned: Tuned | None = None,
) -> list[str]:
    """Sentences on a baseline without a finished run, variants without one (or, if they were
    `tuned`, without a tuning run), runs made with other programs or machines than others, warm-ups
    that take every step, and pairs of variants that share no seed. `base` is the variant used for
    the `baseline` of the command line."""
    finished = {run.label for run in done}
    labels = [variant.label for variant in design.variants if variant.label in finished]
    notes: list[str] = []
    if baseline not in (base, method_of(base)):
        is_known = any(baseline in (variant.label, variant.method) for variant in design.variants)
        why = "has no finished run" if is_known else "is not among the methods"
        notes.append(f"The baseline {baseline} {why}: differences are from {base}.")
    for variant in design.variants:
        if variant.label not in labels:
            runs = "runs" if tuned is None or tuned.get(variant.label) else "tuning runs"
            notes.append(f"{variant.label} is left out: none of its {runs} finished.")
    made = [read_environment(run.spec.folder) for run in done]
    if differ := [what for what, fields in MADE_WITH.items() if _differs(made, fields)]:
        notes.append(
            f"The runs were not all made with the same {listed(differ)}: the times of some "
            "say nothing beside those of others, and figures may differ for that reason too."
        )
    if dense := dict.fromkeys(run.label for run in done if run.is_dense):
        notes.append(
            f"The dense warm-up takes every step of {', '.join(dense)}: such runs trained every "
            "token, and methods that differ in their choice alone are one."
        )
    passes = next(iter(scores.values()))
    for first, second in combinations(labels, 2):
        is_judged = base in (first, second) or SUBJECT in map(method_of, (first, second))
        if is_judged and not paired(passes[first], passes[second]):
            notes.append(
                f"{first} and {second} have no seed that both finished: nothing is said of their "
                "difference."
            )
    return notes


def _differs(made: Sequence[Environment], fields: Sequence[str]) -> bool:
    """Whether the fields differ among those that recorded them."""
    value = attrgetter(*fields)
    known = [value(one) for one in made if value(one) != value(Environment())]
    return any(one != known[0] for one in known)

"""Notes on what a comparison was asked for and cannot say, mostly since runs failed."""

from __future__ import annotations

from collections.abc import Sequence

from ictcli.compare.claims import SUBJECT, method_of
from ictcli.compare.design import Design
from ictcli.compare.finished import FinishedRun
from ictcli.compare.statistics import Scores, paired
from ictcli.compare.tuning import Tuned


def notes_of(
    design: Design,
    done: Sequence[FinishedRun],
    scores: Scores,
    base: str,
    asked: str,
    tuned: Tuned | None = None,
) -> list[str]:
    """A sentence for a baseline `asked` for that has no run, for variants without a finished run
    (or, if they were `tuned`, without a tuning run), for warm-ups that take every step, and for
    pairs of variants that share no seed: such a pair has no difference and no verdict."""
    finished = {one.label for one in done}
    labels = [one.label for one in design.variants if one.label in finished]
    notes: list[str] = []
    meant = {name for one in design.variants for name in (one.label, one.method)}
    if asked not in (base, method_of(base)):
        why = "has no finished run" if asked in meant else "is not among the methods"
        notes.append(f"The baseline {asked} {why}: differences are from {base}.")
    for variant in design.variants:
        if variant.label not in labels:
            lost = tuned is not None and not tuned.get(variant.label)
            runs = "tuning runs" if lost else "runs"
            notes.append(f"{variant.label} is left out: none of its {runs} finished.")
    dense = dict.fromkeys(one.label for one in done if one.is_dense)
    if dense:
        notes.append(
            f"The dense warm-up takes every step of {', '.join(dense)}: such runs trained every "
            "token, and methods that differ in their choice alone are one."
        )
    one_metric = next(iter(scores.values()))
    for place, one in enumerate(labels):
        for other in labels[place + 1 :]:
            named = base in (one, other) or SUBJECT in (method_of(one), method_of(other))
            if named and not paired(one_metric[one], one_metric[other]):
                notes.append(
                    f"{one} and {other} have no seed that both finished: nothing is said of their "
                    "difference."
                )
    return notes

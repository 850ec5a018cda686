"""Where the gradient goes, and uniqueness behind a lost answer."""

from collections.abc import Callable, Mapping

from ictcli.algorithm.attribution import KINDS, SURE
from ictcli.compare.comparison import Comparison
from ictcli.compare.gradients import Attribution, LostUniqueness
from ictcli.compare.numbers import (
    MINUS,
    count_range,
    percent,
    points,
    thousandths,
    whole,
)
from ictcli.compare.report import document as doc
from ictcli.compare.report import gradient_figures as figures
from ictcli.compare.report.palette import Looks, method_table
from ictcli.compare.statistics import SeedMean

SIGNS = {True: "+", False: MINUS}
"""By whether the tokens are made likelier."""


def gradient(comparison: Comparison, looks: Looks) -> doc.Section:
    title, found = "Where the gradient goes", comparison.attribution
    if not found:
        absent = (
            "No run recorded rollouts of a step with a gradient behind the dense warm-up "
            "(record.rollouts_every), so where the gradient goes is not known."
        )
        return doc.Section("gradient", title, [doc.Text(absent, "absent")])
    kinds = [kind for kind in KINDS if any(s.kind == kind for s in _first(found).shares)]
    blocks = [*_shares(found, kinds, looks), *_loss(found, looks)]
    return doc.Section("gradient", title, blocks)


def _first(found: Mapping[str, Attribution]) -> Attribution:
    return next(iter(found.values()))


def _shares(found: Mapping[str, Attribution], kinds: list[str], looks: Looks) -> list[doc.Block]:
    steps = count_range([each.steps for each in found.values()])
    caption = (
        "Where the gradient goes: a token's part is the length of its loss's gradient by the "
        "logits, |w A| times |e_y - p|. Right and wrong forks: by the choice taken there; sure: "
        f"other tokens with p > {SURE:g}; the rest. To the right tokens that are made likelier "
        f"(w A > 0), to the left less likely. From the rollouts that {steps} steps a run recorded."
    )
    panels = [figures.shares(found, kinds, looks)]
    known = {label: each for label, each in found.items() if each.towards_right}
    if known:
        caption += (
            " Towards right choices: what makes right choices likelier and wrong ones less "
            "likely, less what does the opposite."
        )
        panels.append(figures.towards_right(known, looks))
    columns: list[doc.Column[Attribution]] = [doc.column("runs", lambda row: row.runs, whole)]
    for kind in kinds:
        for raised in (True, False):
            name = f"{kind} {SIGNS[raised]}"
            columns.append(doc.interval_column(f"{name}, %", name, _share(kind, raised), percent))
    if known:
        columns.append(doc.column("before it is lost, %", _within_reach, percent, "before lost"))
        columns.append(doc.interval_column("towards right", "towards_right", _towards, points))
    note = (
        "Below a share stands its 95 % interval over seeds. Shares of a method add up to 100 %. "
        + "Before it is lost: on tokens while the right answer is within reach. " * bool(known)
    )
    return [
        doc.Figure("gradient", caption, panels, figures.kind_keys(kinds)),
        method_table("gradient", "Shares of the gradient.", looks, columns, found, note),
    ]


Pair = tuple[float | None, doc.Interval | None]


def _pair(mean: SeedMean) -> Pair:
    return mean.value, (mean.low, mean.high)


def _share(kind: str, raised: bool) -> Callable[[Attribution], Pair]:
    def value(row: Attribution) -> Pair:
        share = row.share(kind, raised=raised)
        return _pair(share.share) if share else (None, None)

    return value


def _within_reach(row: Attribution) -> float:
    return sum(share.share.value for share in row.shares if share.regime == "before")


def _towards(row: Attribution) -> Pair:
    return _pair(row.towards_right) if row.towards_right else (None, None)


LOSS_COLUMNS: list[doc.Column[LostUniqueness]] = [
    doc.interval_column("u before", "before", lambda loss: _pair(loss.before), thousandths),
    doc.interval_column("u after", "after", lambda loss: _pair(loss.after), thousandths),
    doc.interval_column("rise", "rise", lambda loss: _pair(loss.rise), thousandths),
]


def _loss(found: Mapping[str, Attribution], looks: Looks) -> list[doc.Block]:
    known = {label: each.uniqueness for label, each in found.items() if each.uniqueness}
    if not known:
        absent = (
            "Uniqueness before and after an answer is lost is not known: no run recorded it "
            "(record.uniqueness), or the task does not say where answers are lost."
        )
        return [doc.Text(absent, "absent")]
    caption = (
        "Mean uniqueness u of tokens while the right answer is within reach (hollow) and after it "
        "is lost (filled), in nats, over the recorded steps. Tokens after a loss stand later in "
        "their responses, where rollouts have drifted apart anyway."
    )
    table = "Uniqueness before and after an answer is lost, with 95 % intervals over seeds."
    return [
        doc.Figure("lost", caption, [figures.uniqueness_when_lost(known, looks)]),
        method_table("lost", table, looks, LOSS_COLUMNS, known),
    ]

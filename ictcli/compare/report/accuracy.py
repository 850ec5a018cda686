"""What was reached: pass@k after training, differences from the baseline, and how intervals and p
are made."""

from collections.abc import Callable, Mapping

from ictcli.compare.claims import better
from ictcli.compare.comparison import Comparison
from ictcli.compare.numbers import (
    ABSENT,
    bounds,
    count_range,
    counted,
    listed,
    p_value,
    percent,
    points,
    whole,
)
from ictcli.compare.report import document as doc
from ictcli.compare.report import figures
from ictcli.compare.report.palette import Looks, method_table
from ictcli.compare.statistics import RESAMPLES, Estimate, PairedDifference
from ictcli.compare.variants import STOPPED

NOT_TOLD = "not told from 0"
AT_BOUNDS = (
    "Where every sample was wrong, or every one right, nothing shows how much luck there is: the "
    "interval is that of Clopper and Pearson over problems (over seeds, with one problem) and does "
    "not see the luck of other seeds. Near such a bound intervals are at least as wide."
)
HOLDS_FOR = {
    "seeds and problems": "The intervals are over seeds and problems together: they say where "
    "the figure would lie with other seeds and other problems of the same kind.",
    "problems": "Where there is one seed the interval is over problems alone: it says nothing "
    "of how another seed would have turned out.",
    "seeds": "With one problem the interval is over seeds alone.",
}
"""What an interval holds for, by `Estimate.over`."""


def sizes(comparison: Comparison) -> str:
    """How many runs, problems and samples a figure is from: for captions."""
    runs = [variant.runs for variant in comparison.variants]
    return (
        f"{counted(sum(runs), 'run')} ({count_range(runs)} a method), "
        f"{counted(comparison.problems, 'problem')}, {counted(comparison.n, 'sample')} each"
    )


def accuracy(comparison: Comparison, looks: Looks) -> doc.Section:
    estimates = comparison.estimates
    first = next(iter(estimates))
    rows = {
        label: {metric: by_label[label] for metric, by_label in estimates.items()}
        for label in estimates[first]
    }
    columns: list[doc.Column[Mapping[str, Estimate]]] = [
        doc.column("seeds", lambda row: row[first].seeds, whole)
    ]
    for metric in estimates:
        columns += _estimate_columns(metric)
    columns += _sd_columns(first)
    caption = (
        "Share of problems solved: pass@k is the chance that at least one of k samples is correct. "
        f"From {sizes(comparison)}."
    )
    every = [estimate for row in rows.values() for estimate in row.values()]
    over = {each.over for each in every if each.seeds == 1 or not _at_bound(each)}
    note = " ".join(
        [
            *(text for name, text in HOLDS_FOR.items() if name in over),
            *([AT_BOUNDS] if any(map(_at_bound, every)) else []),
            f"The two standard deviations are of {first}, in points: of the seeds' own means, and "
            "of the seeds without the luck of problems and samples. The second is cut at 0; "
            f"{NOT_TOLD} says that the seeds vary no more than their samples would anyway, not "
            f"that they are equal. {ABSENT} stands for what is not known.",
        ]
    )
    table = method_table("accuracy", caption, looks, columns, rows, note)
    notes = [doc.Text(note, "absent") for note in comparison.notes]
    blocks = [*notes, table, *_forest(comparison, looks)]
    return doc.Section("accuracy", "Accuracy after training", blocks)


def _forest(comparison: Comparison, looks: Looks) -> list[doc.Figure]:
    tables = {metric: rows for metric, rows in comparison.differences.items() if rows}
    caption = (
        f"Differences from {looks[comparison.baseline].label} in points, paired by seed and "
        "problem, with 95 % intervals; a filled mark is told from 0 after Holm's correction, a "
        f"hollow one is not. From {sizes(comparison)}."
    )
    panels = [
        figures.forest(metric, rows, comparison.baseline, looks) for metric, rows in tables.items()
    ]
    return [doc.Figure("forest", caption, panels)] if panels else []


def _estimate_columns(metric: str) -> list[doc.Column[Mapping[str, Estimate]]]:
    return [
        doc.column(f"{metric}, %", lambda row: row[metric].value, percent, metric),
        doc.Column(
            "95 % interval",
            lambda row: _interval(row[metric], percent),
            (f"{metric} low", f"{metric} high"),
        ),
    ]


def _interval(estimate: Estimate, form: Callable[[float], str]) -> doc.Cell:
    return doc.Cell(bounds(estimate.low, estimate.high, form), (estimate.low, estimate.high))


def _sd_columns(metric: str) -> list[doc.Column[Mapping[str, Estimate]]]:
    means, seeds = "sd of the seeds' means", "sd over seeds"

    def over_seeds(sd: float) -> str:
        return percent(sd) if sd > 0 else NOT_TOLD

    return [
        doc.column(means, lambda row: row[metric].means_sd, percent, f"{metric} {means}"),
        doc.column(seeds, lambda row: row[metric].seed_sd, over_seeds, f"{metric} {seeds}"),
    ]


def _at_bound(estimate: Estimate) -> bool:
    """Whether every sample was wrong, or every one right, and bounds are known."""
    return estimate.value in (0, 1) and estimate.low is not None


def differences(comparison: Comparison, looks: Looks) -> doc.Section:
    title = "Differences from the baseline"
    tables = {metric: rows for metric, rows in comparison.differences.items() if rows}
    baseline = looks[comparison.baseline].label
    if not tables:
        absent = f"Nothing was run beside the baseline, {baseline}."
        if len(comparison.variants) > 1:
            absent = f"No seed finished both the baseline, {baseline}, and another method."
        return doc.Section("differences", title, [doc.Text(absent, "absent")])
    every = [each for rows in tables.values() for each in rows.values()]
    family = sum(each.p_holm is not None for each in every)
    blocks: list[doc.Block] = []
    for metric, rows in tables.items():
        caption = f"{metric}: differences from {baseline}, in points, paired by seed and problem."
        columns = _difference_columns(metric, family)
        blocks.append(method_table(f"differences-{metric}", caption, looks, columns, rows))
    caption = f"without the runs that crashed: differences from {baseline}."
    blocks += _more("held", caption, comparison.differences_without_crashed, looks)
    caption = (
        "what the steps behind the dense warm-up added: differences from the runs that end with it."
    )
    blocks += _more("stopped", caption, comparison.differences_from_stopped, looks)
    if stopped := comparison.differences_from_stopped:
        panels = [figures.forest(metric, rows, STOPPED, looks) for metric, rows in stopped.items()]
        blocks.append(doc.Figure("stopped", f"The same drawn: {caption}", panels))
    note = (
        "p is two-sided and takes the luck of runs to be about normal. p, Holm, is corrected over "
        f"this section's {counted(family, 'test')}, every method and k; that of a verdict over the "
        "claims of its own group, so it can be smaller or larger. p by swaps is an exact "
        "permutation test that takes nothing for granted; with so few seeds it cannot go below its "
        "floor, whatever the data. Detectable is the true difference that 4 of 5 comparisons of "
        "this size would tell from 0 at 5 %, before correction. A difference that shows no luck "
        "has no p."
    )
    blocks.append(doc.Text(note, "note"))
    compared = {label for rows in tables.values() for label in rows} | {comparison.baseline}
    if absent := [v.label for v in comparison.variants if v.label not in compared]:
        names = listed([looks[label].label for label in absent])
        left_out = f"Left out, since no seed finished both them and {baseline}: {names}."
        blocks.append(doc.Text(left_out, "absent"))
    if apart := _judged_apart(comparison):
        heading = "Told from 0 in a verdict and not in these tables, or the other way:"
        blocks += [doc.Text(heading, "note"), doc.Items(apart)]
    return doc.Section("differences", title, blocks)


def _more(
    name: str,
    caption: str,
    differences: Mapping[str, Mapping[str, PairedDifference]],
    looks: Looks,
) -> list[doc.Block]:
    """A table for each metric of another family of differences."""
    every = [each for rows in differences.values() for each in rows.values()]
    family = sum(each.p_holm is not None for each in every)
    return [
        method_table(
            f"{name}-{metric}",
            f"{metric}, {caption}",
            looks,
            _difference_columns(metric, family),
            rows,
        )
        for metric, rows in differences.items()
        if rows
    ]


def _difference_columns(metric: str, family: int) -> list[doc.Column[PairedDifference]]:
    return [
        doc.column("difference", lambda row: row.value, points, f"{metric} difference"),
        doc.Column("95 % interval", lambda row: _interval(row, points), ("low", "high")),
        doc.column("p", lambda row: row.p, p_value),
        doc.column(f"p, Holm over {family}", lambda row: row.p_holm, p_value, "p_holm"),
        doc.column("p by swaps", lambda row: row.p_swap, p_value, "p_swap"),
        doc.column("its floor", lambda row: row.p_swap_least, p_value, "p_swap_least"),
        doc.column("detectable", lambda row: row.detectable, percent),
        doc.column("seeds", lambda row: row.seeds, whole),
    ]


def _judged_apart(comparison: Comparison) -> list[str]:
    """A sentence for each difference that a verdict and a row of the tables judge apart."""
    tests = {claim.name: claim.test for claim in comparison.claims}
    apart: list[str] = []
    for metric, rows in comparison.differences.items():
        for label, row in rows.items():
            test = tests.get(better(comparison.task, label, comparison.baseline, metric))
            if test is None or None in (test.p_holm, row.p_holm):
                continue
            if test.differs != row.differs:
                apart.append(
                    f"{label}, {metric}: p {p_value(test.p_holm or 0)} over the "
                    f"{test.tests} tests of its verdict's group, {p_value(row.p_holm or 0)} "
                    "over those of this section. The verdict is of the paper's claim; the table "
                    "asks which of all methods differ from the baseline."
                )
    return apart


def pass_at_k(comparison: Comparison, looks: Looks) -> doc.Section:
    title, curves = "pass@k against k", comparison.passk
    ks = sorted({k for curve in curves.values() for k in curve})
    if len(ks) < 2:
        absent = "One sample a problem was drawn, so there is no curve of pass@k against k."
        return doc.Section("passk", title, [doc.Text(absent, "absent")])
    caption = f"pass@k against k, the mean over runs and problems. From {sizes(comparison)}."
    keys = [looks[label].key() for label in curves]
    figure = doc.Figure("passk", caption, [figures.pass_curves(curves, looks)], keys)
    columns = [_pass_column(k) for k in ks]
    table = method_table("passk", "pass@k in %, the means drawn above.", looks, columns, curves)
    return doc.Section("passk", title, [figure, table])


def _pass_column(k: int) -> doc.Column[Mapping[int, float]]:
    return doc.column(f"k = {k}", lambda row: row.get(k), percent, f"pass@{k}")


def inference() -> doc.Section:
    """How intervals and p are made, and the sources of the methods."""
    text = (
        "Seeds and problems are crossed random effects: every run meets the same problems, so a "
        "figure is a mean plus the luck of its seed, of its problem and of what is left, and a "
        "claim has to hold for others of both. The 95 % interval and p are those of a fiducial "
        "(generalised) pivot of that mean: the three mean squares of the two-way analysis of "
        "variance, each known up to a chi-square, integrated by quadrature (Weerahandi 1993, "
        "Generalized confidence intervals, J. Am. Stat. Assoc. 88; Hannig, Iyer and Patterson "
        "2006, Fiducial generalized confidence intervals, ibid. 101). With one problem, and of "
        "figures of a whole run (recall of forks, entropy, dH2), they are Student's t over seeds; "
        "with one seed, Student's t over problems, which says nothing of another seed and decides "
        "nothing. All take luck to be about normal. Where p belongs to a family of tests it is "
        "corrected by Holm's step-down procedure (Holm 1979, A simple sequentially rejective "
        "multiple test procedure, Scand. J. Stat. 6). p by swaps is the exact sign-flip "
        "permutation test: the two runs of each seed swap labels (with one seed, the two values of "
        f"each problem), in every arrangement or, where they are more, {RESAMPLES:,} drawn ones. "
        "It assumes nothing of how luck is distributed but cannot give a p below 2 in the number "
        "of arrangements. Where fewer than 20 problems differ from the rest, as near a ceiling, an "
        "interval is at least one over problems that reckons with one more problem at either end "
        "(for shares of 0 and 1 Clopper and Pearson's, 1934, Biometrika 26), and p is no smaller "
        "than that allows; differences that are all equal have no p."
    )
    return doc.Section("inference", "How intervals and p are made", [doc.Text(text, "note")])

"""What training looked like and took: curves, time, memory, tuning."""

from collections.abc import Mapping

from ictcli.compare.comparison import CURVES, Comparison, Cost, Curve, VariantRecord
from ictcli.compare.numbers import (
    ABSENT,
    count_range,
    counted,
    figure,
    listed,
    percent,
    setting,
    size,
)
from ictcli.compare.report import document as doc
from ictcli.compare.report import figures
from ictcli.compare.report.palette import Looks, method_table
from ictcli.recipe import toml_value
from ictcli.text import visible

WEIGHED = (
    "weigh their tokens differently (a mean over each sequence, over all kept tokens, over a "
    "constant length), so the same rate is a larger step for some than for others"
)
WHY_TUNED = (
    f"Why the learning rate is chosen for each method: methods {WEIGHED}. A rate that suits one "
    "could decide the comparison."
)
COST_COLUMNS: list[doc.Column[Cost]] = [
    doc.column("seconds a step", lambda cost: cost.seconds_per_step, name="seconds_per_step"),
    doc.column("sampling, s", lambda cost: cost.sample_s, name="sample_s"),
    doc.column("update, s", lambda cost: cost.update_s, name="update_s"),
    doc.column("peak memory", lambda cost: cost.peak_bytes, size, "peak_bytes"),
]


def curves(comparison: Comparison, looks: Looks) -> doc.Section:
    title = "The course of training"
    drawn = {
        name: known
        for name, by_label in comparison.curves.items()
        if (known := {label: curve for label, curve in by_label.items() if curve.step})
    }
    if not drawn:
        absent = "No curves: the runs recorded no metrics."
        return doc.Section("training", title, [doc.Text(absent, "absent")])
    labels = list(dict.fromkeys(label for by_label in drawn.values() for label in by_label))
    runs = [variant.runs for variant in comparison.variants]
    stride = figures.stride(
        max(len(curve.step) for by_label in drawn.values() for curve in by_label.values())
    )
    caption = (
        "Lines are means over seeds, bands run from the smallest to the largest seed. From "
        f"{counted(sum(runs), 'run')}, {counted(comparison.steps, 'step')} each, by the sampled "
        f"rollouts of each step. Each point stands for {counted(stride, 'step')}: their mean, and "
        "the whole of their band."
    )
    panels = [figures.curve(name, drawn[name], looks) for name in CURVES if name in drawn]
    blocks: list[doc.Block] = [
        doc.Figure("curves", caption, panels, [looks[label].key() for label in labels])
    ]
    if missing := [title for name, (title, _) in CURVES.items() if name not in drawn]:
        blocks.append(doc.Text(f"Not recorded, so not shown: {listed(missing)}.", "absent"))
    caption = (
        "The last step of training: the mean over seeds, and the smallest to the largest seed "
        f"({count_range(runs)} a method)."
    )
    rows = {
        label: {name: by_label[label] for name, by_label in drawn.items() if label in by_label}
        for label in labels
    }
    columns = [_last_column(name) for name in drawn]
    blocks.append(method_table("last-step", caption, looks, columns, rows))
    return doc.Section("training", title, blocks)


def _last_column(name: str) -> doc.Column[Mapping[str, Curve]]:
    """A metric at the last step, with its smallest and largest over seeds."""
    form = percent if name == "share_kept" else figure

    def last(row: Mapping[str, Curve]) -> tuple[float | None, doc.Interval | None]:
        curve = row.get(name)
        return (curve.mean[-1], (curve.low[-1], curve.high[-1])) if curve else (None, None)

    return doc.interval_column(CURVES[name][1], name, last, form, ("lowest", "highest"))


def cost(comparison: Comparison, looks: Looks) -> doc.Section:
    title = "Time and memory"
    if not comparison.cost:
        return doc.Section("cost", title, [doc.Text("Nothing was timed.", "absent")])
    caption = "Time of a step and the most memory held."
    note = (
        "A step is whole, with its bookkeeping; sampling and update are its parts without the "
        "first step. Runs side by side on one machine slow each other down."
    )
    figure = doc.Figure("cost", "Mean time of a step.", [figures.cost(comparison.cost, looks)])
    table = method_table("cost", caption, looks, COST_COLUMNS, comparison.cost, note)
    return doc.Section("cost", title, [figure, table])


def tuning(comparison: Comparison, looks: Looks) -> doc.Section:
    """The tuning runs; without them, that one learning rate is not fair to all."""
    tuned = {variant.label: variant for variant in comparison.variants if variant.tuned}
    blocks: list[doc.Block] = [_tuning_table(tuned, looks)] if tuned else []
    if edge := _at_edge(comparison):
        blocks.append(doc.Text(edge, "absent"))
    if tunes_rate(comparison):
        blocks.append(doc.Text(WHY_TUNED, "note"))
    else:
        blocks.append(doc.Text(f"The learning rate was not tuned. {_rates(comparison)}", "absent"))
    return doc.Section("tuning", "Tuning", blocks)


def _tuning_table(tuned: Mapping[str, VariantRecord], looks: Looks) -> doc.ReportTable:
    tried = [scores for variant in tuned.values() for scores in (variant.tuned or {}).items()]
    settings = list(dict.fromkeys(override for override, _ in tried))
    metrics = list(dict.fromkeys(metric for _, scores in tried for metric in scores))
    columns = [_tried_column(override, metric) for override in settings for metric in metrics]
    columns.append(doc.text_column("chosen", lambda row: row.chosen or ABSENT))
    grid = listed(settings)
    caption = (
        f"What each method reached at each setting of the same grid ({grid}): one run each, "
        "on other problems and another seed than the final runs."
    )
    first = "pass@1" if "pass@1" in metrics else next(iter(metrics), "accuracy")
    note = (
        f"The setting of the highest {first}, the first of equals, is that of the final runs. One "
        f"run each is a coarse guide. {ABSENT} stands for a tuning run that failed."
    )
    return method_table("tuning", caption, looks, columns, tuned, note)


def _tried_column(override: str, metric: str) -> doc.Column[VariantRecord]:
    return doc.column(
        visible(f"{override}: {metric}, %"),
        lambda row: (row.tuned or {}).get(override, {}).get(metric),
        percent,
        visible(f"{override} {metric}"),
    )


def _at_edge(comparison: Comparison) -> str:
    """Which methods ended at the smallest or the largest of the values that were tried."""
    ends: dict[str, list[str]] = {}
    for variant in comparison.variants:
        tried = {each: toml_value(each.partition("=")[2]) for each in variant.tuned or {}}
        chosen, values = variant.chosen, tried.values()
        if chosen not in tried or not all(type(value) in (int, float) for value in values):
            continue
        for end, edge in (("largest", max(values)), ("smallest", min(values))):
            if tried[chosen] == edge and len(tried) > 1:
                place = f"{chosen}, the {end} of {len(tried)}"
                ends.setdefault(place, []).append(variant.label)
    places = "; ".join(f"{listed(labels)} ({end})" for end, labels in ends.items())
    return places and (
        f"Chosen at the edge of the grid: {places}. A value beyond it may be better, and by more "
        "for some methods than for others: a wider grid would tell."
    )


def tunes_rate(comparison: Comparison) -> bool:
    """Whether the learning rate was chosen for each method by itself."""
    grid = [override for variant in comparison.variants for override in variant.tuned or {}]
    return any(override.startswith("lr=") for override in grid)


def _rates(comparison: Comparison) -> str:
    """At which learning rates the methods trained, and why that matters."""
    variants = comparison.variants
    rates = listed([setting(rate) for rate in sorted({variant.lr for variant in variants})])
    trained = f"Every method trained at the same learning rate ({rates})."
    if any(override.startswith("lr=") for each in variants for override in each.overrides):
        trained = (
            f"The learning rate was swept: every method stands here at each of {rates}. To set a "
            "method's best of these against another's favours the one that varies more."
        )
    return (
        f"{trained} Methods {WEIGHED}, and one rate is not fair to all of them. A difference "
        "between methods of different normalisation can come from that alone; --tune lr=... "
        "chooses a rate for each, on other problems."
    )

"""What training looked like and took: curves, time, memory, tuning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ictcli.compare.report import figures
from ictcli.compare.report.document import (
    Block,
    Column,
    Figure,
    Section,
    Table,
    Text,
    mapping,
    text_column,
)
from ictcli.compare.report.numbers import (
    ABSENT,
    Cell,
    counted,
    counts_told,
    figure,
    interval,
    listed,
    of,
    percent,
    setting,
    size,
    word,
)
from ictcli.compare.report.palette import Looks, variant
from ictcli.text import visible

Result = dict[str, Any]
WEIGHED = (
    "weigh their tokens differently (a mean over each sequence, over all kept tokens, over a "
    "constant length), so the same rate is a larger step for some than for others"
)
WHY_TUNED = (
    f"Why the learning rate is chosen for each method: methods {WEIGHED}. A rate that suits one "
    "could decide the comparison."
)
LAST = {
    "reward": "reward",
    "entropy": "H1",
    "renyi2": "H2",
    "share_kept": "trained, %",
    "length": "tokens",
    "grad_norm": "gradient norm",
}


def curves(result: Result, looks: Looks) -> Section:
    title = "The course of training"
    found: dict[str, Any] = {
        name: {label: one for label, one in mine.items() if one and one["step"]}
        for name, mine in mapping(result["curves"]).items()
        if name in figures.CURVES and mine
    }
    found: dict[str, Any] = {name: mine for name, mine in found.items() if mine}
    if not found:
        absent = "No curves: the runs recorded no metrics."
        return Section("training", title, [Text(absent, "absent")])
    labels = list(dict.fromkeys(label for mine in found.values() for label in mine))
    runs = {one["label"]: one["runs"] for one in result["variants"]}
    total = counted(sum(runs.get(label, 0) for label in labels), "run")
    stride = max(figures.stride(mine) for mine in found.values())
    lines = "Lines are means over seeds, bands run from the smallest to the largest seed."
    if max((runs.get(label, 0) for label in labels), default=0) < 2:
        lines = "Lines are of one seed each, without a band."
    caption = (
        f"{lines} From {total}, {counted(result['steps'], 'step')} each, by the sampled rollouts "
        "of each step."
    )
    if stride > 1:
        caption += (
            f" Each point stands for {stride} steps: their mean, and the whole of their band."
        )
    panels = [figures.curve(name, found[name], looks) for name in figures.CURVES if name in found]
    blocks: list[Block] = [Figure("curves", caption, panels, [looks[one].key() for one in labels])]
    missing = [text for name, text in figures.CURVES.items() if name not in found]
    if missing:
        blocks.append(Text(f"Not recorded, so not shown: {listed(missing)}.", "absent"))
    blocks.append(_last(result, found, looks))
    return Section("training", title, blocks)


def _last(result: Result, found: dict[str, dict[str, Any]], looks: Looks) -> Table:
    """The figures of the last step, with the smallest and the largest over seeds."""
    columns = [
        text_column("method"),
        *(Column(LAST[name], (name, f"{name} lowest", f"{name} highest")) for name in found),
    ]
    rows: list[list[Cell]] = []
    for label in dict.fromkeys(label for mine in found.values() for label in mine):
        cells = [variant(looks[label])]
        for name, mine in found.items():
            form = percent if name == "share_kept" else figure
            one = mine.get(label) or {"mean": [None], "low": [None], "high": [None]}
            mean, low, high = (one[part][-1] for part in ("mean", "low", "high"))
            told = interval(low, high, form).text
            cells.append(replace(of(mean, form), values=(mean, low, high), under=told))
        rows.append(cells)
    runs = [one["runs"] for one in result["variants"]]
    seeds = f"{counts_told(runs)} {'seed' if max(runs, default=0) == 1 else 'seeds'}"
    caption = f"The last step of training: the mean and the smallest to the largest of {seeds}."
    if max(runs, default=0) < 2:
        caption = "The last step of training, of one seed."
    return Table("last-step", caption, columns, rows)


def cost(result: Result, looks: Looks) -> Section:
    title = "Time and memory"
    found: dict[str, Any] = {label: one for label, one in mapping(result["cost"]).items() if one}
    if not found:
        return Section("cost", title, [Text("Nothing was timed.", "absent")])
    columns = [
        text_column("method"),
        Column("seconds a step", ("seconds_per_step",)),
        Column("sampling, s", ("sample_s",)),
        Column("update, s", ("update_s",)),
        Column("peak memory", ("peak_bytes",)),
    ]
    rows = [
        [
            variant(looks[label]),
            of(one["seconds_per_step"]),
            of(one["sample_s"]),
            of(one["update_s"]),
            of(one["peak_bytes"], size),
        ]
        for label, one in found.items()
    ]
    runs = counted(sum(one["runs"] for one in result["variants"]), "run")
    steps = counted(result["steps"], "step")
    caption = f"Time of a step and the most memory held, of {runs} of {steps} each."
    note = (
        "A step is whole, with its bookkeeping; sampling and update are its parts without the "
        "first step. Runs side by side on one machine slow each other down."
    )
    blocks: list[Block] = [Table("cost", caption, columns, rows, note)]
    if all(one["sample_s"] is not None and one["update_s"] is not None for one in found.values()):
        caption = f"Mean time of a step by its two parts, from {runs} of {steps} each."
        blocks.insert(0, Figure("cost", caption, [figures.cost(found, looks)]))
    return Section("cost", title, blocks)


def tuning(result: Result, looks: Looks) -> Section:
    """The tuning runs; without them, that one learning rate is not fair to all."""
    title = "Tuning"
    tuned: dict[str, Any] = {
        one["label"]: one["tuned"] for one in result["variants"] if one["tuned"]
    }
    if not tuned:
        return Section("tuning", title, [Text(f"Nothing was tuned. {_rates(result)}", "absent")])
    settings = list(dict.fromkeys(tried for tries in tuned.values() for tried in tries))
    metrics = list(
        dict.fromkeys(m for tries in tuned.values() for reached in tries.values() for m in reached)
    )
    chosen = any(one.get("chosen") for one in result["variants"])
    columns = [
        text_column("method"),
        *(
            Column(visible(f"{tried}: {metric}, %"), (visible(f"{tried} {metric}"),))
            for tried in settings
            for metric in metrics
        ),
        text_column("chosen") if chosen else Column("lr of the runs", ("lr",)),
    ]
    rows = [
        [
            variant(looks[one["label"]]),
            *(
                of(mapping(tuned[one["label"]].get(tried)).get(metric), percent)
                for tried in settings
                for metric in metrics
            ),
            word(one.get("chosen") or ABSENT) if chosen else of(one["lr"], setting),
        ]
        for one in result["variants"]
        if one["label"] in tuned
    ]
    grid = listed([visible(tried) for tried in settings])
    caption = (
        f"What each method reached at each setting of the same grid ({grid}): one run each, "
        "on other problems and another seed than the final runs."
    )
    first = "pass@1" if "pass@1" in metrics else next(iter(metrics), "accuracy")
    note = (
        f"The setting of the highest {visible(first)} is that of the final runs. One run each is a "
        f"coarse guide. {ABSENT} stands for a tuning run that failed."
    )
    blocks: list[Block] = [Table("tuning", caption, columns, rows, note)]
    if edge := _at_edge(result):
        blocks.append(Text(edge, "absent"))
    if tunes_rate(result):
        blocks.append(Text(WHY_TUNED, "note"))
    else:
        blocks.append(Text(f"The learning rate was not tuned. {_rates(result)}", "absent"))
    return Section("tuning", title, blocks)


def _at_edge(result: Result) -> str:
    """Which methods ended at the smallest or the largest of the values that were tried."""
    ends: dict[str, list[str]] = {}
    for one in result["variants"]:
        tried = {setting: _value(setting) for setting in mapping(one["tuned"])}
        chosen = one.get("chosen")
        values = [value for value in tried.values() if value is not None]
        if chosen in tried and len(values) == len(tried) > 1:
            end = "largest" if tried[chosen] == max(values) else "smallest"
            if tried[chosen] in (min(values), max(values)):
                told = f"{visible(chosen)}, the {end} of {len(tried)}"
                ends.setdefault(told, []).append(visible(one["label"]))
    if not ends:
        return ""
    told = "; ".join(f"{listed(labels)} ({end})" for end, labels in ends.items())
    return (
        f"Chosen at the edge of the grid: {told}. A value beyond it may be better, and by more for "
        "some methods than for others: a wider grid would tell."
    )


def _value(setting: str) -> float | None:
    try:
        return float(setting.partition("=")[2])
    except ValueError:
        return None


def tunes_rate(result: Result) -> bool:
    """Whether the learning rate was chosen for each method by itself."""
    grid = [tried for one in result["variants"] for tried in mapping(one["tuned"])]
    return any(tried.partition("=")[0].strip() == "lr" for tried in grid)


def _rates(result: Result) -> str:
    """At which learning rates the methods trained, and why that matters."""
    variants: list[dict[str, Any]] = [one for one in result["variants"] if one["lr"] is not None]
    rates = listed([setting(rate) for rate in sorted({one["lr"] for one in variants})])
    swept = any(o.partition("=")[0].strip() == "lr" for v in variants for o in v["overrides"])
    if swept:
        trained = (
            f"The learning rate was swept: every method stands here at each of {rates}. To set a "
            "method's best of these against another's favours the one that varies more; a rate "
            "that is chosen for each has to be chosen on other problems, as --tune lr=... does. At "
            "one rate for all, methods"
        )
    else:
        trained = f"Every method trained at the same learning rate ({rates}). Methods"
    return (
        f"{trained} {WEIGHED}, and one rate is not fair to all of them. A difference between "
        "methods of different normalisation can come from that alone"
        + ("." if swept else "; --tune lr=... chooses a rate for each.")
    )

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
    Cell,
    counted,
    figure,
    interval,
    listed,
    of,
    percent,
    setting,
    size,
)
from ictcli.compare.report.palette import Looks, variant
from ictcli.inspect.pieces import visible

Result = dict[str, Any]
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
    caption = (
        f"Lines are means over seeds, bands run from the smallest to the largest seed. From {total}"
        f", {counted(result['steps'], 'step')} each, by the sampled rollouts of each step."
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
    seeds = counted(len(result["seeds"]), "seed")
    caption = f"The last step of training: the mean and the smallest to the largest of {seeds}."
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
    rates = sorted({one["lr"] for one in result["variants"] if one["lr"] is not None})
    if not tuned:
        told = listed([setting(rate) for rate in rates])
        absent = (
            f"Nothing was tuned: every method trained at the recipe's learning rate ({told}). "
            "Methods weigh their tokens differently (a mean over each sequence, over all kept "
            "tokens, over a constant length), so the same rate is a larger step for some than for "
            "others, and one rate is not fair to all of them. A difference between methods of "
            "different normalisation can come from that alone; --tune lr=... chooses a rate for "
            "each."
        )
        return Section("tuning", title, [Text(absent, "absent")])
    settings = list(dict.fromkeys(tried for tries in tuned.values() for tried in tries))
    metrics = list(
        dict.fromkeys(m for tries in tuned.values() for reached in tries.values() for m in reached)
    )
    columns = [
        text_column("method"),
        *(
            Column(visible(f"{tried}: {metric}, %"), (visible(f"{tried} {metric}"),))
            for tried in settings
            for metric in metrics
        ),
        Column("lr of the runs", ("lr",)),
    ]
    rows = [
        [
            variant(looks[one["label"]]),
            *(
                of(mapping(tuned[one["label"]].get(tried)).get(metric), percent)
                for tried in settings
                for metric in metrics
            ),
            of(one["lr"], setting),
        ]
        for one in result["variants"]
        if one["label"] in tuned
    ]
    grid = listed([visible(tried) for tried in settings])
    caption = (
        f"What each method reached at each setting of the same grid ({grid}): one run each, "
        " on other problems and another seed than the final runs."
    )
    note = (
        "The setting of the highest pass@1 is that of the final runs. One run each is a coarse "
        "guide."
    )
    return Section("tuning", title, [Table("tuning", caption, columns, rows, note)])

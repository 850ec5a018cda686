"""Accuracy after training, and what its intervals and standard deviations are of."""

from __future__ import annotations

from typing import Any

from ictcli.compare.report.document import Column, Section, Table, Text, mapping, text_column
from ictcli.compare.report.numbers import ABSENT, interval, number, of, percent
from ictcli.compare.report.outcome import sizes
from ictcli.compare.report.palette import Looks, variant

NOT_TOLD = "not told from 0"
AT_BOUNDS = (
    "Where every sample was wrong, or every one right, nothing shows how much luck there is: the "
    "interval is that of Clopper and Pearson over problems (over seeds, with one problem) and does "
    "not see the luck of other seeds."
)
Result = dict[str, Any]


def accuracy(result: Result, looks: Looks) -> Section:
    found: Any = result["estimates"]
    if not found:
        absent = "No run was evaluated, so there is no pass@k."
        return Section("accuracy", "Accuracy after training", [Text(absent, "absent")])
    columns = [text_column("method"), Column("seeds", ("seeds",))]
    for metric in found:
        columns += [
            Column(f"{metric}, %", (metric,)),
            Column("95 % interval", (f"{metric} low", f"{metric} high")),
        ]
    first = next(iter(found))
    columns.append(Column("sd of the seeds' means", (f"{first} sd of the seeds' means",)))
    columns.append(Column("sd over seeds", (f"{first} sd over seeds",)))
    labels = list(dict.fromkeys(label for mine in found.values() for label in mine))
    rows = [
        [
            variant(looks[label]),
            number(next(mine[label]["seeds"] for mine in found.values() if label in mine)),
            *(
                cell
                for mine in found.values()
                for one in [mine.get(label) or dict.fromkeys(("value", "low", "high"))]
                for cell in (of(one["value"], percent), interval(one["low"], one["high"], percent))
            ),
            of(mapping(found[first].get(label)).get("means_sd"), percent),
            of(mapping(found[first].get(label)).get("seed_sd"), _told_sd),
        ]
        for label in labels
    ]
    caption = (
        "Share of problems solved: pass@k is the chance that at least one of k samples is correct. "
        f"From {sizes(result)}."
    )
    every = [one for mine in found.values() for one in mine.values()]
    note = " ".join(
        [
            *_generality({one["over"] for one in every if one["seeds"] == 1 or not _bound(one)}),
            *([AT_BOUNDS] if any(map(_bound, every)) else []),
            f"The two standard deviations are of {next(iter(found))}, in points: that of the "
            "seeds' own means, the luck of their samples in it, and that of the seeds with the "
            f"luck of problems and samples taken out. The second is cut at 0; {NOT_TOLD} says that "
            "the seeds vary no more than their samples would anyway, not that they are equal. "
            f"{ABSENT} stands for what is not known.",
        ]
    )
    return Section(
        "accuracy",
        "Accuracy after training",
        [Table("accuracy", caption, columns, rows, note)],
    )


def _told_sd(sd: float) -> str:
    return percent(sd) if sd > 0 else NOT_TOLD


def _generality(over: set[Any]) -> list[str]:
    """For what the intervals hold, where they are over that."""
    told = {
        "seeds and problems": "The intervals are over seeds and problems together: they say where "
        "the figure would lie with other seeds and other problems of the same kind.",
        "problems": "Where there is one seed the interval is over problems alone: it says nothing "
        "of how another seed would have turned out.",
        "seeds": "With one problem the interval is over seeds alone.",
    }
    return [text for name, text in told.items() if name in over]


def _bound(one: dict[str, Any]) -> bool:
    """Whether every sample was wrong, or every one right, and bounds are known."""
    return one["value"] in (0, 1) and one["low"] is not None

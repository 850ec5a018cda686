"""What was reached: verdicts, pass@k, and the differences from the baseline."""

from __future__ import annotations

from typing import Any

from ictcli.compare.report import figures
from ictcli.compare.report.document import (
    Block,
    Claims,
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
    counted,
    interval,
    number,
    of,
    p_value,
    percent,
    points,
)
from ictcli.compare.report.palette import Looks, variant
from ictcli.inspect.pieces import visible

VERDICTS = ("supported", "contradicted", "undecided")
Result = dict[str, Any]


def sizes(result: Result) -> str:
    """From how much a figure is: for captions."""
    runs = sum(one["runs"] for one in result["variants"])
    of_runs = f"{counted(runs, 'run')} ({counted(len(result['seeds']), 'seed')} a method)"
    problems, samples = counted(result["problems"], "problem"), counted(result["n"], "sample")
    return f"{of_runs}, {problems}, {samples} each"


def verdicts(result: Result) -> Section:
    claims = result["claims"]
    if not claims:
        none = "No claim is judged: none of the methods it takes was run to its end."
        return Section("verdicts", "Verdicts", [Text(none, "absent")])
    meaning = (
        "Supported: the difference has the sign that the paper gives it and is told from 0 at 5 % "
        "after Holm's correction, or every seed is within the bounds named. Contradicted: it is "
        "told, and is the other way. Undecided: neither; that is no evidence that there is no "
        "difference."
    )
    shown = [(c["verdict"], visible(c["name"]), visible(c["sentence"])) for c in claims]
    return Section("verdicts", "Verdicts", [Claims(shown), Text(meaning, "note")])


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
    columns.append(Column("sd over seeds", (f"{next(iter(found))} sd over seeds",)))
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
            of(mapping(next(iter(found.values())).get(label)).get("seed_sd"), percent),
        ]
        for label in labels
    ]
    caption = (
        "Share of problems solved: pass@k is the chance that at least one of k samples is correct. "
        f"From {sizes(result)}."
    )
    note = (
        "The intervals are over seeds and problems together: they say where the figure would lie "
        "with other seeds and other problems of the same kind. The standard deviation over seeds, "
        f"in points, is of {next(iter(found))} with the luck of problems and samples taken out. "
        f"{ABSENT} stands for what is not known."
    )
    return Section(
        "accuracy",
        "Accuracy after training",
        [Table("accuracy", caption, columns, rows, note)],
    )


def differences(result: Result, looks: Looks) -> Section:
    title = "Differences from the baseline"
    found: dict[str, Any] = {
        metric: mine for metric, mine in mapping(result["differences"]).items() if mine
    }
    baseline = looks[result["baseline"]].label
    if not found:
        absent = f"Nothing was run beside the baseline, {baseline}."
        return Section("differences", title, [Text(absent, "absent")])
    every = [one for mine in found.values() for one in mine.values()]
    family = sum(one["p_holm"] is not None for one in every)
    caption = (
        f"Differences from {baseline} in points, paired by seed and problem, with 95 % intervals; "
        "a filled mark is told from 0 after Holm's correction, a hollow one is not. "
        f"From {sizes(result)}."
    )
    panels = [
        figures.forest(metric, mine, result["baseline"], looks) for metric, mine in found.items()
    ]
    blocks: list[Block] = [Figure("forest", caption, panels)]
    for metric, mine in found.items():
        rows = [
            [
                variant(looks[label]),
                of(one["value"], points),
                interval(one["low"], one["high"], points),
                of(one["p"], p_value),
                of(one["p_holm"], p_value),
                of(one["p_swap"], p_value),
                of(one["p_swap_least"], p_value),
                of(one["detectable"], percent),
                number(one["seeds"]),
            ]
            for label, one in mine.items()
        ]
        caption = f"{metric}: differences from {baseline}, in points. From {sizes(result)}."
        blocks.append(Table(f"differences-{metric}", caption, _columns(metric), rows))
    note = (
        "p is two-sided, of no difference over other seeds and problems; it takes the luck of runs "
        f"to be about normal. p after Holm is corrected over {counted(family, 'test')}. p by swaps "
        "is an exact permutation test that takes nothing for granted: the two runs of each seed "
        "swap their labels. With so few seeds it cannot go below its floor, whatever the data. "
        "Detectable is the true difference that 4 of 5 comparisons of this size would tell from 0 "
        "at 5 %, before correction: smaller ones are likely to be missed here. The verdicts are "
        "corrected over families of their own, the paper's claims, so their p can differ."
    )
    blocks.append(Text(note, "note"))
    return Section("differences", title, blocks)


def _columns(metric: str) -> list[Column]:
    return [
        text_column("method"),
        Column("difference", (f"{metric} difference",)),
        Column("95 % interval", ("low", "high")),
        Column("p", ("p",)),
        Column("p after Holm", ("p_holm",)),
        Column("p by swaps", ("p_swap",)),
        Column("its floor", ("p_swap_least",)),
        Column("detectable", ("detectable",)),
        Column("seeds", ("seeds",)),
    ]


def pass_at_k(result: Result, looks: Looks) -> Section:
    title = "pass@k against k"
    found: dict[str, Any] = {
        label: mine for label, mine in mapping(result["passk"]).items() if mine
    }
    ks = sorted({int(k) for mine in found.values() for k in mine if k.isdigit()})
    if len(ks) < 2:
        absent = "One sample a problem was drawn, so there is no curve of pass@k against k."
        return Section("passk", title, [Text(absent, "absent")])
    caption = (
        "pass@k against k, the mean over runs and problems. Curves that meet at the right differ "
        f"in how often they solve a problem, not in which they can solve. From {sizes(result)}."
    )
    keys = [looks[label].key() for label in found]
    columns = [text_column("method"), *(Column(f"k = {k}", (f"pass@{k}",)) for k in ks)]
    rows = [
        [variant(looks[label]), *(of(mine.get(str(k)), percent) for k in ks)]
        for label, mine in found.items()
    ]
    table = Table(
        "passk", f"pass@k in %, the means drawn above. From {sizes(result)}.", columns, rows
    )
    figure = Figure("passk", caption, [figures.pass_curves(found, looks)], keys)
    return Section("passk", title, [figure, table])

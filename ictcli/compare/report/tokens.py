"""The mechanism: which tokens the methods choose, and whether the theory predicts what follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ictcli.compare.entropy_claims import ERROR_BELOW, PEARSON_ABOVE
from ictcli.compare.report import mechanism as drawn
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
from ictcli.compare.report.forks import forks
from ictcli.compare.report.numbers import (
    Cell,
    counted,
    counts_told,
    figure,
    hundredths,
    interval,
    number,
    of,
    percent,
    thousandths,
)
from ictcli.compare.report.palette import Looks, variant

Result = dict[str, Any]
COMMON = "the same rollouts of the model before training for every method"


def mechanism(result: Result, looks: Looks) -> Section:
    blocks = [
        *_places(result, looks),
        *_overlap(result, looks),
        *forks(result, looks),
        *_uniqueness(result),
        *_probe(result, looks),
    ]
    return Section("mechanism", "Which tokens are chosen", blocks)


def _places(result: Result, looks: Looks) -> list[Block]:
    found: dict[str, Any] = {
        label: one for label, one in mapping(result["places"]).items() if one and one["tokens"]
    }
    if not found:
        return [Text("Where the kept tokens lie was not recorded.", "absent")]
    bins = len(next(iter(found.values()))["position"])
    total = max(one["tokens"] for one in found.values())
    caption = (
        f"Where the kept tokens lie: in {bins} equal parts of the response, in {bins} equal parts "
        "of all tokens ordered by entropy, and in the two regimes. R_H, a token likelier than the "
        "purity: raising it lowers the entropy; R_L, a less likely one: raising it raises the "
        "entropy; the gap between is of tokens as likely as the purity. The dotted line "
        f"({100 / bins:g} %) is what an even choice would show. From {COMMON}, "
        f"one batch of one seed; the method that keeps most keeps {total:,} tokens."
    )
    panels = [
        drawn.places("position", "place in the response, %", found, looks),
        drawn.places("entropy", "entropy quantile of all tokens, %", found, looks),
        drawn.regimes(found, looks),
    ]
    rated = any(mapping(one.get("high_low")).get("mean") is not None for one in found.values())
    sure = all("sure" in one for one in found.values())
    columns = [
        text_column("method"),
        Column("tokens kept", ("tokens",)),
        Column("R_H, %", ("regime_high",)),
        Column("R_L, %", ("regime_low",)),
        Column("R_H : R_L", ("regime_high / regime_low",)),
        *([Column("p > 0.99, %", ("sure",))] if sure else []),
        *([_RATIO] if rated else []),
        Column("first tenth, %", ("position first tenth",)),
        Column("top tenth of entropy, %", ("entropy top tenth",)),
    ]
    rows: list[list[Cell]] = []
    for label, one in found.items():
        high, low = one["regime_high"], one["regime_low"]
        tenth = len(one["position"]) // 10 or 1
        rows.append(
            [
                variant(looks[label]),
                number(one["tokens"]),
                of(high, percent),
                of(low, percent),
                of(high / low if low else None),
                *([of(one["sure"], percent)] if sure else []),
                *([_ratio(mapping(one.get("high_low")))] if rated else []),
                of(sum(one["position"][:tenth]), percent),
                of(sum(one["entropy"][-tenth:]), percent),
            ]
        )
    note = ""
    if sure:
        of_all = next(iter(found.values()))["sure_all"]
        note = (
            "p > 0.99: kept tokens to which the model gave more than that; "
            f"of all tokens {percent(of_all)} % are. "
        )
    if rated:
        note += (
            "High : low entropy is of training, not of this batch: kept tokens above the median H1 "
            "of their step for each kept one that is not, the mean over runs and below it the "
            "smallest to the largest run. The paper gives 1.03 and 0.99, by a threshold that it "
            "does not name."
        )
    told = f"Where the kept tokens lie, of {COMMON}."
    table = Table("places", told, columns, rows, note)
    return [Figure("places", caption, panels, [looks[label].key() for label in found]), table]


_RATIO = Column("high : low entropy", ("high : low", "high : low lowest", "high : low highest"))


def _ratio(found: dict[str, Any]) -> Cell:
    """The ratio of kept tokens of high to those of low entropy, and its range over seeds."""
    mean = found.get("mean")
    seeds = _known(found.get("per_seed") or [])
    low, high = min(seeds, default=None), max(seeds, default=None)
    under = interval(low, high, figure).text if len(seeds) > 1 else ""
    return replace(of(mean), values=(mean, low, high), under=under)


def _overlap(result: Result, looks: Looks) -> list[Block]:
    found: Any = result["overlap"]
    if not found or len(found["labels"]) < 2:
        return [Text("One method alone has no overlap with another.", "absent")]
    labels, jaccard = found["labels"], found["jaccard"]
    caption = (
        "Overlap of the choices: tokens that both methods keep, of all that either keeps "
        "(Jaccard's index; 1 is the same choice, 0 none in common). "
        f"From {COMMON}, {counted(len(labels), 'method')}."
    )
    columns = [
        text_column("method"),
        *(Column(looks[one].label, (looks[one].label,)) for one in labels),
    ]
    rows = [
        [variant(looks[label]), *(of(value, hundredths) for value in row)]
        for label, row in zip(labels, jaccard, strict=True)
    ]
    return [
        Figure("overlap", caption, [drawn.overlap(labels, jaccard, looks)]),
        Table("overlap", f"Jaccard's index of the choices, from {COMMON}.", columns, rows),
    ]


def _uniqueness(result: Result) -> list[Block]:
    found: Any = result["uniqueness"]
    if not found or not found["value"]:
        return [Text("Uniqueness was not recorded, so there is no sorted curve.", "absent")]
    caption = (
        "Uniqueness u of all tokens, the highest first. The elbow is the point farthest below the "
        f"straight line between the ends. From {COMMON}, one batch of one seed."
    )
    elbow = found.get("elbow") or {"share": None, "value": None}
    columns = [
        Column("tokens with u = 0, %", ("zero",)),
        Column("elbow at, % of tokens", ("elbow share",)),
        Column("u there", ("elbow value",)),
        Column("highest u", ("highest",)),
    ]
    row = [
        of(found["zero"], percent),
        of(elbow["share"], percent),
        of(elbow["value"]),
        of(found["value"][0]),
    ]
    return [
        Figure("uniqueness", caption, [drawn.uniqueness(found)]),
        Table("uniqueness", f"The curve of uniqueness, from {COMMON}.", columns, [row]),
    ]


def _probe(result: Result, looks: Looks) -> list[Block]:
    found: dict[str, Any] = {
        label: one for label, one in mapping(result["probe"]).items() if one and one["step"]
    }
    if not found:
        absent = (
            "The change of entropy was not measured around optimiser steps (the probe was off), so "
            "the theory's prediction of it is not tested here."
        )
        return [Text(absent, "absent")]
    claimed = f"r > {PEARSON_ABOVE} and an error under {ERROR_BELOW}"
    caption = (
        "Predicted against measured change of H2 at kept positions, around an optimiser step: "
        "Pearson's r and the mean absolute error at each probed step. The dashed lines are what "
        f"the paper claims ({claimed}). Lines are means over the runs of each method "
        f"({counts_told([one['runs'] for one in found.values()])}), bands run from the smallest to "
        "the largest of them; "
        f"{counted(max(len(one['step']) for one in found.values()), 'probed step')} at most."
    )
    panels = [
        drawn.probe("pearson", "Pearson's r", found, looks, PEARSON_ABOVE),
        drawn.probe("error", "mean absolute error", found, looks, ERROR_BELOW),
    ]
    columns = [
        text_column("method"),
        Column("runs", ("runs",)),
        Column("probed steps", ("probed steps",)),
        Column("mean r", ("mean pearson",)),
        Column("lowest r", ("lowest pearson",)),
        Column("mean error", ("mean error",)),
        Column("highest error", ("highest error",)),
    ]
    rows: list[list[Cell]] = []
    for label, one in found.items():
        pearson, error = one["pearson"], one["error"]
        rows.append(
            [
                variant(looks[label]),
                number(one["runs"]),
                number(len(one["step"])),
                of(sum(pearson) / len(pearson), thousandths),
                of(min(one["pearson_low"]), thousandths),
                of(sum(error) / len(error), figure),
                of(max(one["error_high"]), figure),
            ]
        )
    table = Table(
        "probe",
        "Predicted against measured dH2: means over runs and steps, and the lowest r and the "
        f"highest error of any probe of any run; the paper claims {claimed}.",
        columns,
        rows,
    )
    return [Figure("probe", caption, panels, [looks[label].key() for label in found]), table]


def _known(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]

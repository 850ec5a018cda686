"""The mechanism: which tokens the methods choose, and whether the theory predicts what follows."""

from collections.abc import Sequence
from operator import itemgetter

from ictcli.compare.comparison import Comparison, Probe, TrainedTokens
from ictcli.compare.entropy_claims import ERROR_BELOW, PEARSON_ABOVE
from ictcli.compare.numbers import hundredths, percent, thousandths, whole
from ictcli.compare.report import document as doc
from ictcli.compare.report import figures
from ictcli.compare.report.forks import forks
from ictcli.compare.report.palette import Looks, method_table
from ictcli.compare.shared_rollouts import Places, UniquenessCurve

SHARED = "one batch of one seed, the same rollouts of the model before training for every method"
PlaceRow = tuple[Places, TrainedTokens]
PLACE_COLUMNS: list[doc.Column[PlaceRow]] = [
    doc.column("tokens kept", lambda row: row[0].tokens, whole, "tokens"),
    doc.column("R_H, %", lambda row: row[0].regime_high, percent, "regime_high"),
    doc.column("R_L, %", lambda row: row[0].regime_low, percent, "regime_low"),
    doc.column(
        "R_H : R_L",
        lambda row: row[0].regime_high / row[0].regime_low if row[0].regime_low else None,
        name="regime_high / regime_low",
    ),
    doc.column("p > 0.99, %", lambda row: row[0].sure, percent, "sure"),
    doc.interval_column(
        "high : low entropy", "high : low", lambda row: _ratio(row[1]), ends=("lowest", "highest")
    ),
    doc.column(
        "first tenth, %",
        lambda row: sum(row[0].position[: len(row[0].position) // 10 or 1]),
        percent,
        "position first tenth",
    ),
    doc.column(
        "top tenth of entropy, %",
        lambda row: sum(row[0].entropy[-(len(row[0].entropy) // 10 or 1) :]),
        percent,
        "entropy top tenth",
    ),
]
PROBE_COLUMNS: list[doc.Column[Probe]] = [
    doc.column("runs", lambda probe: probe.runs, whole),
    doc.column("probed steps", lambda probe: len(probe.step), whole),
    doc.column("mean r", lambda probe: _mean(probe.pearson), thousandths, "mean pearson"),
    doc.column("lowest r", lambda probe: min(probe.pearson_low), thousandths, "lowest pearson"),
    doc.column("mean error", lambda probe: _mean(probe.error)),
    doc.column("highest error", lambda probe: max(probe.error_high)),
]
UNIQUENESS_COLUMNS: list[doc.Column[UniquenessCurve]] = [
    doc.column("tokens with u = 0, %", lambda curve: curve.zero, percent, "zero"),
    doc.column("highest u", lambda curve: curve.value[0], name="highest"),
]


def mechanism(comparison: Comparison, looks: Looks) -> doc.Section:
    blocks = [
        *_places(comparison, looks),
        *_overlap(comparison, looks),
        *forks(comparison, looks),
        *_uniqueness(comparison),
        *_probe(comparison, looks),
    ]
    return doc.Section("mechanism", "Which tokens are chosen", blocks)


def _places(comparison: Comparison, looks: Looks) -> list[doc.Block]:
    places = {label: each for label, each in comparison.places.items() if each.tokens}
    if not places:
        return [doc.Text("No method kept a token of the shared rollouts.", "absent")]
    first = next(iter(places.values()))
    bins = len(first.position)
    caption = (
        f"Where the kept tokens lie: in {bins} equal parts of the response, in {bins} equal parts "
        "of all tokens ordered by entropy, and in the two regimes. R_H, a token likelier than the "
        "purity: raising it lowers the entropy; R_L, a less likely one: raising it raises the "
        "entropy; the gap between is of tokens as likely as the purity. The dotted line "
        f"({100 / bins:g} %) is what an even choice would show. From {SHARED}."
    )
    position = {label: each.position for label, each in places.items()}
    entropy = {label: each.entropy for label, each in places.items()}
    quantile = "entropy quantile of all tokens, %"
    panels = [
        figures.shares("by position", "place in the response, %", position, bins, looks),
        figures.shares("by entropy", quantile, entropy, bins, looks),
        figures.regimes(places, looks),
    ]
    note = (
        "p > 0.99: kept tokens to which the model gave more than that; "
        f"of all tokens {percent(first.sure_all)} % are. "
        "High : low entropy is of training, not of this batch: kept tokens above the median H1 "
        "of their step for each kept one that is not, the mean over runs and below it the "
        "smallest to the largest run. The paper gives 1.03 and 0.99, by a threshold that it "
        "does not name."
    )
    rows = {label: (each, comparison.training[label]) for label, each in places.items()}
    return [
        doc.Figure("places", caption, panels, [looks[label].key() for label in places]),
        method_table("places", "Where the kept tokens lie.", looks, PLACE_COLUMNS, rows, note),
    ]


def _ratio(trained: TrainedTokens) -> tuple[float | None, doc.Interval]:
    """Kept tokens of high entropy for each of low entropy, and the range over seeds."""
    seeds = [ratio for ratio in trained.high_low_per_seed if ratio is not None]
    return trained.high_low_ratio, (min(seeds, default=None), max(seeds, default=None))


def _overlap(comparison: Comparison, looks: Looks) -> list[doc.Block]:
    labels, jaccard = comparison.overlap.labels, comparison.overlap.jaccard
    if len(labels) < 2:
        return [doc.Text("One method alone has no overlap with another.", "absent")]
    caption = (
        "Overlap of the choices: tokens that both methods keep, of all that either keeps "
        "(Jaccard's index; 1 is the same choice, 0 none in common). "
        f"From {SHARED}."
    )
    columns = [
        doc.column(looks[label].label, itemgetter(place), hundredths)
        for place, label in enumerate(labels)
    ]
    rows = dict(zip(labels, jaccard, strict=True))
    return [
        doc.Figure("overlap", caption, [figures.overlap(comparison.overlap, looks)]),
        method_table("overlap", "Jaccard's index of the choices.", looks, columns, rows),
    ]


def _uniqueness(comparison: Comparison) -> list[doc.Block]:
    curve = comparison.uniqueness
    caption = f"Uniqueness u of all tokens, the highest first. From {SHARED}."
    return [
        doc.Figure("uniqueness", caption, [figures.uniqueness(curve)]),
        doc.report_table("uniqueness", "The curve of uniqueness.", UNIQUENESS_COLUMNS, [curve]),
    ]


def _probe(comparison: Comparison, looks: Looks) -> list[doc.Block]:
    probes = {label: probe for label, probe in comparison.probe.items() if probe.step}
    if not probes:
        absent = (
            "The change of entropy was not measured around optimiser steps (the probe was off), so "
            "the theory's prediction of it is not tested here."
        )
        return [doc.Text(absent, "absent")]
    claimed = f"r > {PEARSON_ABOVE} and an error under {ERROR_BELOW}"
    caption = (
        "Predicted against measured change of H2 at kept positions, around an optimiser step: "
        "Pearson's r and the mean absolute error at each probed step. The dashed lines are what "
        f"the paper claims ({claimed}). Lines are means over the runs of each method, bands run "
        "from the smallest to the largest of them."
    )
    panels = [
        figures.probe("pearson", "Pearson's r", probes, looks, PEARSON_ABOVE),
        figures.probe("error", "mean absolute error", probes, looks, ERROR_BELOW),
    ]
    table = "Predicted against measured dH2: means and extremes over the probes of all runs."
    return [
        doc.Figure("probe", caption, panels, [looks[label].key() for label in probes]),
        method_table("probe", table, looks, PROBE_COLUMNS, probes),
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

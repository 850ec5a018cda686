"""comparison.json as frozen models: everything that a comparison measured."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from ictcli.compare.differences import Contrast
from ictcli.compare.run_means import Cost, Curve, TrainedTokens
from ictcli.compare.statistics import Estimate, PairedDifference
from ictcli.evaluation.record import Record
from ictcli.recipe.metrics import METRICS, shown_in

FORMAT = 7
CURVES = {name: METRICS[name].heading for name in shown_in("compare")}
"""Metrics recorded over training: the heading of each."""


class VariantRecord(Record):
    """A variant and how its runs went."""

    label: str
    method: str
    source: str
    summary: str
    overrides: Sequence[str]
    lr: float
    tuned: Mapping[str, Mapping[str, float]] | None = None
    """Scores on the tuning problems by override, means of its runs; None without tuning."""
    tuned_runs: int = 0
    """Runs of each value."""
    chosen: str | None = None
    runs: int
    failed: int


class Comparison(Record):
    """What was compared, on what, and what was found. Mappings of scores are by metric."""

    format: int = FORMAT
    command: str
    recipe: str
    recipe_toml: str
    overrides: Sequence[str]
    task: str
    model: str
    versions: Mapping[str, str]
    device: Mapping[str, JsonValue]
    seeds: Sequence[int]
    steps: int
    problems: int
    n: int
    """Samples a problem."""
    tuned_key: str | None = None
    baseline: str
    contrasts: Sequence[Contrast]
    """The differences that are tested."""
    variants: Sequence[VariantRecord]
    estimates: Mapping[str, Mapping[str, Estimate]]
    """By metric, greedy accuracy among them, and label; the model before training too."""
    differences: Mapping[str, Mapping[str, PairedDifference]]
    """By metric and the name of the contrast. Holm's correction is over all of pass@k, and over
    those of greedy accuracy."""
    curves: Mapping[str, Mapping[str, Curve]]
    training: Mapping[str, TrainedTokens]
    cost: Mapping[str, Cost]
    failed: Sequence[str] = ()
    notes: Sequence[str] = ()

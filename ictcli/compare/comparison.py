"""The content of comparison.json as frozen pydantic models."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from ictcli.compare.differences import Contrast
from ictcli.compare.run_means import Cost, Curve, TrainedTokens
from ictcli.compare.statistics import Estimate, PairedDifference
from ictcli.evaluation.record import Record
from ictcli.recipe.metrics import METRICS, shown_in

FORMAT = 7
CURVES = {name: METRICS[name].heading for name in shown_in("compare")}
"""Headings by name of the training metrics that a report draws over the steps."""


class VariantRecord(Record):
    """The settings of a variant, its tuning scores, and how many of its runs finished."""

    label: str
    method: str
    source: str
    summary: str
    overrides: Sequence[str]
    lr: float
    tuned: Mapping[str, Mapping[str, float]] | None = None
    """Mean scores on the tuning problems by override and metric; None without tuning."""
    tuned_runs: int = 0
    """Number of tuning runs of each value."""
    chosen: str | None = None
    runs: int
    failed: int


class Comparison(Record):
    """The settings, the device and the results of a comparison."""

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
    """Samples per problem."""
    tuned_key: str | None = None
    baseline: str
    contrasts: Sequence[Contrast]
    """The pairs of variants whose differences are tested."""
    variants: Sequence[VariantRecord]
    estimates: Mapping[str, Mapping[str, Estimate]]
    """Means by metric (pass@k and greedy) and label, including the model before training."""
    differences: Mapping[str, Mapping[str, PairedDifference]]
    """Differences by metric and name of the contrast. Holm's correction treats all tests of pass@k
    as one family, and all tests of greedy accuracy as another."""
    curves: Mapping[str, Mapping[str, Curve]]
    training: Mapping[str, TrainedTokens]
    cost: Mapping[str, Cost]
    failed: Sequence[str] = ()
    notes: Sequence[str] = ()

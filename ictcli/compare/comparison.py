"""comparison.json as frozen models: everything that a comparison measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import JsonValue

from ictcli.compare.crossed import LEVEL
from ictcli.compare.efficiency import Efficiency
from ictcli.compare.gradients import Attribution
from ictcli.compare.run_means import Cost, Curve, Probe, TrainedTokens
from ictcli.compare.shared_rollouts import ForkComparison, Overlap, Places, UniquenessCurve
from ictcli.compare.statistics import Estimate, PairedDifference
from ictcli.evaluation.record import Record
from ictcli.evaluation.sharpening import Sharpening
from ictcli.recipe.metrics import METRICS, shown_in
from ictcli.tables.numbers import Format, factor, points

FORMAT = 4
CURVES = {name: (METRICS[name].long_heading, METRICS[name].heading) for name in shown_in("compare")}
"""Metrics recorded over training: the title of the curve, and a short heading."""


Verdict = Literal["supported", "contradicted", "equal", "undecided", "not testable", "measured"]
"""See `ictcli.compare.claims`; `measured` is of figures that no bound judges."""
Family = Literal["main", "second", "fork", "entropy", "variants"]
Unit = Literal["points", "ratio"]


def _ratio(logarithm: float) -> str:
    return factor(float(np.exp(min(logarithm, 10.0))))  # an interval may go on without end


FORMS: Mapping[Unit, Format] = {"points": points, "ratio": _ratio}
"""How figures in a unit are written; ratios are kept as their logarithms."""


@dataclass(frozen=True, kw_only=True)
class JudgedDifference(PairedDifference):
    """The difference a claim rests on, with its family of Holm's correction."""

    rival: str
    family: str
    tests: int
    unit: Unit = "points"
    metric: str = ""
    gain: PairedDifference | None = None
    """The gain in `metric`, where the verdict rests on it too."""


@dataclass(frozen=True)
class EntropyRatio:
    """Final over first mean H1: its geometric mean over seeds with a 95 % interval."""

    ratio: float
    low: float | None
    high: float | None
    ratios: list[float]
    """Of each seed."""
    alarmed: int
    """Seeds that crossed a bound at some step."""
    seeds: int


@dataclass(frozen=True)
class PredictionQuality:
    """Predicted against measured dH2: each figure with its 95 % interval over seeds."""

    pearson: tuple[float, float | None, float | None]
    error: tuple[float, float | None, float | None]
    seeds: int


@dataclass(frozen=True)
class Claim:
    """One claim of the paper; `name` holds the variant it is about."""

    name: str
    verdict: Verdict
    sentence: str
    numbers: JudgedDifference | EntropyRatio | PredictionQuality
    caveats: tuple[str, ...] = ()
    """Ceilings, floors and crashed runs that it touches."""
    ours: bool = False
    """Whether it is of our own variants and rivals: the paper makes no such claim."""

    @property
    def family(self) -> str | None:
        """Of tests; None if it is without one."""
        return "variants" if self.ours else self.test and self.test.family

    @property
    def test(self) -> JudgedDifference | None:
        """The test it rests on; None if it is judged against bounds."""
        return self.numbers if isinstance(self.numbers, JudgedDifference) else None


class VariantRecord(Record):
    """A variant and how its runs went."""

    label: str
    method: str
    source: str
    summary: str
    overrides: Sequence[str]
    lr: float
    swept: Mapping[str, str] = {}
    tuned: Mapping[str, Mapping[str, float]] | None = None
    """pass@k on the tuning problems by override, means of its runs; None without tuning."""
    tuned_runs: Mapping[str, int] = {}
    """By override, how many runs were made; empty where one was of each."""
    tuned_curve: Mapping[str, tuple[float, float, float]] = {}
    """By override, pass@1 on the smooth curve and the ends that hold 95 % of the curves."""
    tuned_sd: Mapping[str, float] = {}
    """By metric, the standard deviation that the choice adds to what the variant reached."""
    tuned_key: str | None = None
    chosen: str | None = None
    runs: int
    failed: int


class ByModel(Record):
    """The first metric of the runs that start from one of several base models, by variant."""

    seeds: Sequence[int]
    estimates: Mapping[str, Estimate]
    differences: Mapping[str, PairedDifference]
    """From the baseline; corrected over these alone."""


class PaperTable(Record):
    """The paper's numbers for this model; a row has the method and a text for each benchmark."""

    note: str
    rows: Sequence[Mapping[str, str]]


class Setting(Record):
    """What was compared, on what, and how."""

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
    ks: Sequence[int]
    baseline_asked: str = ""
    swept: Sequence[str] = ()
    tuned_key: str | None = None


class Comparison(Setting):
    """Mappings are by metric, then by the label of the variant."""

    format: int = FORMAT
    baseline: str
    variants: Sequence[VariantRecord]
    estimates: Mapping[str, Mapping[str, Estimate]]
    differences: Mapping[str, Mapping[str, PairedDifference]]
    """From the baseline."""
    differences_greedy: Mapping[str, Mapping[str, PairedDifference]] = {}
    """From the baseline, of greedy answers: a family of its own, on which no claim rests. It knows
    nothing of the doubt about a tuned setting."""
    crashed: Mapping[str, Sequence[int]] = {}
    """By variant, the seeds of runs that crashed (`ictcli.compare.notes`)."""
    differences_without_crashed: Mapping[str, Mapping[str, PairedDifference]] = {}
    """The same of the other runs, where some crashed."""
    differences_from_stopped: Mapping[str, Mapping[str, PairedDifference]] = {}
    """Of methods with a warm-up, from the runs that end with it, where there are any."""
    differences_from_method: Mapping[str, Mapping[str, PairedDifference]] = {}
    """Of controls, from the same method without, where there is one."""
    claims: Sequence[Claim]
    by_model: Mapping[str, ByModel] = {}
    """Where the seeds start from several base models."""
    sharpening: Mapping[str, Sharpening] = {}
    """By variant, how much of its gain in pass@1 the model before training has at a better
    temperature: of the means over its runs."""
    readable: Mapping[str, float] = {}
    """By variant, accuracy after training among samples with a readable answer."""
    looks: Sequence[int] = ()
    """After how many seeds a report was made, this one included."""
    planned_seeds: int | None = None
    level: float = LEVEL
    """At which tests are made: less than 5 % where there was more than one look."""
    passk: Mapping[str, Mapping[int, float]]
    """By variant and k."""
    curves: Mapping[str, Mapping[str, Curve]]
    probe: Mapping[str, Probe]
    places: Mapping[str, Places]
    training: Mapping[str, TrainedTokens]
    overlap: Overlap
    forks: Sequence[ForkComparison]
    attribution: Mapping[str, Attribution] = {}
    uniqueness: UniquenessCurve
    cost: Mapping[str, Cost]
    efficiency: Efficiency | None = None
    """None where the share of correct rollouts was not recorded."""
    paper: PaperTable | None = None
    failed: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def tests(self) -> list[PairedDifference]:
        """All differences from the baseline."""
        return [each for rows in self.differences.values() for each in rows.values()]

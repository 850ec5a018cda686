"""Over the runs of a variant: curves of their metrics, the probes of dH2, what they trained, what
they took, and how much of the gain is sharpening."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ictcli.compare.crossed import infer
from ictcli.compare.finished import FinishedRun, VariantRuns
from ictcli.compare.statistics import BEFORE
from ictcli.compare.variants import Variant
from ictcli.evaluation.passk import Difference
from ictcli.evaluation.record import Record
from ictcli.evaluation.sharpening import Sharpening, Solved, sharpening
from ictcli.train.finish import kept_tokens
from ictcli.types import FloatArray

Spent = Mapping[Path, FloatArray]
"""(steps,) by folder of a run: what it had spent by the end of each step, in some unit."""
FORK_METHODS = ("ict", "random", "entropy20")


class Curve(Record):
    """A metric over training: its mean, smallest and largest over the seeds at each step."""

    step: Sequence[int]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    spent: Mapping[str, Sequence[float]] = {}
    """By unit, what runs had spent by the end of each step, their mean."""


class Probe(Record):
    """Predicted against measured dH2 at each step that all `runs` probed: Pearson's r and the mean
    absolute error, with the mean, the smallest and the largest over the runs."""

    step: Sequence[int]
    runs: int
    pearson: Sequence[float]
    pearson_low: Sequence[float]
    pearson_high: Sequence[float]
    error: Sequence[float]
    error_low: Sequence[float]
    error_high: Sequence[float]


class Cost(Record):
    """Means over steps and runs; sampling and update without each run's first step."""

    seconds_per_step: float
    sample_s: float
    update_s: float
    peak_bytes: int | None
    """The most of any run."""


class TrainedTokens(Record):
    """Which tokens the runs of a variant trained: means over the runs, after any dense warm-up."""

    tokens_kept_share: float
    """Of all steps, the dense warm-up included."""
    share_kept: float | None = None
    """None if the dense warm-up takes every step."""
    kept_prob: float | None = None
    regime_high: float | None = None
    fork_recall: float | None = None
    fork_precision: float | None = None
    high_low_ratio: float | None = None
    """Kept tokens of high entropy for each of low entropy; None where none of low entropy was
    kept, as entropy20 does."""
    high_low_per_seed: Sequence[float | None] = ()
    dense_steps: int = 0
    """Of the dense warm-up."""

    @property
    def share_chosen(self) -> float:
        """Of the steps after the dense warm-up, if there are any."""
        return self.tokens_kept_share if self.share_kept is None else self.share_kept


def smoothed(values: FloatArray, width: int) -> FloatArray:
    """(steps,) means of each step and its neighbours, `width` in all, an odd number; at the ends of
    those that are there."""
    ones = np.ones(width)
    return np.convolve(values, ones, "same") / np.convolve(np.ones(len(values)), ones, "same")


def curve(
    runs: Sequence[FinishedRun], name: str, width: int = 1, spent: Mapping[str, Spent] = {}
) -> Curve:
    """At the steps that all runs have reached, each the mean of `width`; those without a value are
    left out. `spent`: by unit."""
    length = min(len(run.metrics) for run in runs)
    values = np.array([smoothed(run.series(name), width)[:length] for run in runs])
    known = np.flatnonzero(~np.isnan(values).all(axis=0)).tolist()
    values = values[:, known]
    return Curve(
        step=[runs[0].metrics[place].step for place in known],
        mean=np.nanmean(values, axis=0).tolist(),
        low=np.nanmin(values, axis=0).tolist(),
        high=np.nanmax(values, axis=0).tolist(),
        spent={
            unit: np.mean([of[run.spec.folder][:length][known] for run in runs], axis=0).tolist()
            for unit, of in spent.items()
        },
    )


def probes(run: FinishedRun) -> FloatArray:
    """(2, steps): Pearson's r and the mean absolute error of the predicted dH2; NaN at steps
    without both."""
    both = np.array([run.series("probe_pearson"), run.series("probe_error")])
    return np.where(np.isnan(both).any(axis=0), np.nan, both)


def mean_probes(runs: Sequence[FinishedRun]) -> list[tuple[float, float]]:
    """Both figures of each run that probed."""
    known = [both for both in map(probes, runs) if not np.isnan(both).all()]
    means = [np.nanmean(both, axis=1).tolist() for both in known]
    return [(pearson, error) for pearson, error in means]


def probe_of(runs: Sequence[FinishedRun]) -> Probe:
    """The probes at each step that every run has probed."""
    values = np.array([*map(probes, runs)])
    known = np.flatnonzero(~np.isnan(values).any(axis=(0, 1))).tolist()
    rows: dict[str, list[float]] = {}
    for place, name in enumerate(("pearson", "error")):
        of = values[:, place, known]
        rows |= {name: of.mean(axis=0).tolist(), f"{name}_low": of.min(axis=0).tolist()}
        rows[f"{name}_high"] = of.max(axis=0).tolist()
    return Probe(step=[runs[0].metrics[place].step for place in known], runs=len(runs), **rows)


def cost(runs: Sequence[FinishedRun]) -> Cost:
    timings = [line for run in runs for line in (run.timings[1:] or run.timings)]
    seconds = [(run.summary.train_s or 0.0) / run.summary.steps for run in runs]
    return Cost(
        seconds_per_step=float(np.mean(seconds)),
        sample_s=float(np.mean([line.sample_s or 0.0 for line in timings])),
        update_s=float(np.mean([line.update_s or 0.0 for line in timings])),
        peak_bytes=max(run.summary.peak_bytes or 0 for run in runs) or None,
    )


def trained_tokens(runs: Sequence[FinishedRun]) -> TrainedTokens:
    kept = [kept_tokens(run.metrics, run.spec.recipe) for run in runs]
    chosen = [tokens for tokens, run in zip(kept, runs, strict=True) if not run.is_dense]

    def mean(name: str, tables: Sequence[Mapping[str, float]] = kept) -> float | None:
        values = [table[name] for table in tables if name in table]
        return float(np.mean(values)) if values else None

    names = ("kept_prob", "regime_high", "fork_recall", "fork_precision", "high_low_ratio")
    return TrainedTokens(
        tokens_kept_share=float(np.mean([run.summary.tokens_kept_share for run in runs])),
        share_kept=mean("share_kept", chosen),
        **{name: mean(name) for name in names},
        high_low_per_seed=[tokens.get("high_low_ratio") for tokens in kept],
        dense_steps=runs[0].spec.recipe.dense_steps,
    )


def fork_recalls(
    variants: Sequence[VariantRuns], seeds: Sequence[int]
) -> tuple[dict[Variant, FloatArray], dict[Variant, TrainedTokens]]:
    """By variant of FORK_METHODS: the recall of the true forks while training, (S, 1) means over
    steps, NaN without a run, and the share of tokens kept in the same steps. Both are of the steps
    after every variant's dense warm-up; variants that are dense in every step are left out."""
    chosen = [each for each in variants if each.variant.method in FORK_METHODS]
    chosen = [each for each in chosen if not each.is_dense]
    warmup = max((each.recipe.dense_steps for each in chosen), default=0)
    recalls: dict[Variant, FloatArray] = {}
    trained: dict[Variant, TrainedTokens] = {}
    for each in chosen:
        known = [run for run in each.runs if not np.isnan(run.series("fork_recall", warmup)).all()]
        if known:
            means = {run.spec.seed: run.mean("fork_recall", warmup) for run in known}
            recalls[each.variant] = by_seed(means, seeds)[:, None]
            share = float(np.mean([run.mean("share_kept", warmup) for run in known]))
            trained[each.variant] = TrainedTokens(tokens_kept_share=share, share_kept=share)
    return recalls, trained


def by_seed(values: Mapping[int, float], seeds: Sequence[int]) -> FloatArray:
    """(S,) values; NaN where there is none of a seed."""
    return np.array([values.get(seed, np.nan) for seed in seeds])


def courses(variants: Sequence[VariantRuns]) -> dict[Variant, dict[int, FloatArray]]:
    """By variant and seed, (2, steps): the share of correct rollouts and mean H1 of all tokens,
    after every variant's dense warm-up."""
    warmup = max((each.recipe.dense_steps for each in variants if not each.is_dense), default=0)
    return {
        each.variant: {
            run.spec.seed: np.array([run.series(name, warmup) for name in ("correct", "entropy")])
            for run in each.runs
        }
        for each in variants
    }


def greedy_scores(variants: Sequence[VariantRuns], seeds: Sequence[int]) -> dict[str, FloatArray]:
    """By label whether each problem's greedy answer is right, (S, N), and first of the models
    before training, a row each; NaN where a run is missing. Without those not asked greedily."""
    every = [run for each in variants for run in each.runs]
    before = {run.spec.recipe.model: run.before.solved for run in every}
    rows = {BEFORE: [solved[0.0] for solved in before.values() if 0.0 in solved]}
    for each in variants:
        asked = {run.spec.seed: run.after.solved for run in each.runs}
        known = {seed: solved[0.0] for seed, solved in asked.items() if 0.0 in solved}
        missing = np.full(each.runs[0].after.problems, np.nan)
        rows[each.label] = [known.get(seed, missing) for seed in seeds] if known else []
    return {label: np.array(its) for label, its in rows.items() if its}


def readable_accuracies(variants: Sequence[VariantRuns]) -> dict[str, float]:
    """By label, the mean over the runs with a readable answer after training."""
    shares = {each.label: [run.after.accuracy_readable for run in each.runs] for each in variants}
    known = {label: [share for share in of if share is not None] for label, of in shares.items()}
    return {label: float(np.mean(of)) for label, of in known.items() if of}


def sharpenings(variants: Sequence[VariantRuns]) -> dict[str, Sharpening]:
    """By label, of the means over the runs of a variant; without variants whose runs were evaluated
    at one temperature alone. The interval of the gain is the wider of that over problems and that
    over seeds and problems (`crossed`)."""
    parts: dict[str, Sharpening] = {}
    for each in variants:
        before, after = ([getattr(run, when).solved for run in each.runs]
                         for when in ("before", "after"))  # fmt: skip
        if found := sharpening(_mean(before), _mean(after)):
            own, t = found.gain, found.temperature
            pairs = zip(after, before, strict=True)
            crossed = infer(np.stack([q[t] - p[t] for q, p in pairs]))
            half = crossed.half() or 0.0
            low = max(min(own.low, own.value - half), -1.0)
            high = min(max(own.high, own.value + half), 1.0)
            gain = Difference(own.value, low, high, not low <= 0 <= high)
            parts[each.label] = found.model_copy(update={"gain": gain})
    return parts


def _mean(runs: Sequence[Solved]) -> Solved:
    shared = [each for each in runs[0] if all(each in run for run in runs)]
    return {each: np.mean([run[each] for run in runs], axis=0) for each in shared}

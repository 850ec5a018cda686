"""Over the runs of a variant: curves of their metrics, the probes of dH2, what they trained, and
what they took."""

from collections.abc import Mapping, Sequence

import numpy as np

from ictcli.compare.finished import FinishedRun, VariantRuns
from ictcli.compare.variants import Variant
from ictcli.evaluation.record import Record
from ictcli.types import FloatArray

FORK_METHODS = ("ict", "random", "entropy20")


class Curve(Record):
    """A metric over training: its mean, smallest and largest over the seeds at each step."""

    step: Sequence[int]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


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


def curve(runs: Sequence[FinishedRun], name: str) -> Curve:
    """At the steps that all runs have reached; those without a value are left out."""
    length = min(len(run.metrics) for run in runs)
    values = np.array([run.series(name)[:length] for run in runs])
    known = np.flatnonzero(~np.isnan(values).all(axis=0)).tolist()
    values = values[:, known]
    return Curve(
        step=[runs[0].metrics[place].step for place in known],
        mean=np.nanmean(values, axis=0).tolist(),
        low=np.nanmin(values, axis=0).tolist(),
        high=np.nanmax(values, axis=0).tolist(),
    )


def probed(run: FinishedRun) -> dict[int, tuple[float, float]]:
    """By step that probed: Pearson's r and the mean absolute error of the predicted dH2."""
    return {
        line.step: (line.probe_pearson, line.probe_error)
        for line in run.metrics
        if line.probe_pearson is not None and line.probe_error is not None
    }


def mean_probes(runs: Sequence[FinishedRun]) -> list[tuple[float, float]]:
    """Pearson's r and the mean absolute error of each run that probed."""
    means = [np.mean(list(probes.values()), axis=0) for run in runs if (probes := probed(run))]
    return [(float(pearson), float(error)) for pearson, error in means]


def probe_of(runs: Sequence[FinishedRun]) -> Probe:
    """The probes at each step that every run has probed."""
    probes = [probed(run) for run in runs]
    steps = [step for step in probes[0] if all(step in probe for probe in probes)]
    values = np.array([[probe[step] for probe in probes] for step in steps])
    pearson, error = np.moveaxis(values.reshape(len(steps), len(runs), 2), 2, 0)
    return Probe(
        step=steps,
        runs=len(runs),
        pearson=pearson.mean(axis=1).tolist(),
        pearson_low=pearson.min(axis=1).tolist(),
        pearson_high=pearson.max(axis=1).tolist(),
        error=error.mean(axis=1).tolist(),
        error_low=error.min(axis=1).tolist(),
        error_high=error.max(axis=1).tolist(),
    )


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
    kept = [run.summary.kept_tokens for run in runs]
    chosen = [run.summary.kept_tokens for run in runs if not run.is_dense]
    return TrainedTokens(
        tokens_kept_share=float(np.mean([run.summary.tokens_kept_share for run in runs])),
        share_kept=_mean("share_kept", chosen),
        kept_prob=_mean("kept_prob", kept),
        regime_high=_mean("regime_high", kept),
        fork_recall=_mean("fork_recall", kept),
        fork_precision=_mean("fork_precision", kept),
        high_low_ratio=_mean("high_low_ratio", kept),
        high_low_per_seed=[tokens.get("high_low_ratio") for tokens in kept],
    )


def _mean(name: str, tables: Sequence[Mapping[str, float]]) -> float | None:
    """The mean of a figure over the tables that have it."""
    values = [table[name] for table in tables if name in table]
    return float(np.mean(values)) if values else None


def fork_recalls(
    variants: Sequence[VariantRuns], seeds: Sequence[int]
) -> tuple[Mapping[Variant, Sequence[float]], Mapping[Variant, float]]:
    """By variant of FORK_METHODS: the recall of the true forks while training, a mean for each seed
    (NaN without its run), and the share of tokens kept in the same steps. Both are of the steps
    after every variant's dense warm-up; variants that are dense in every step are left out."""
    chosen = [each for each in variants if each.variant.method in FORK_METHODS]
    chosen = [each for each in chosen if not each.is_dense]
    warmup = max((each.recipe.dense_steps for each in chosen), default=0)
    recalls: dict[Variant, list[float]] = {}
    kept: dict[Variant, float] = {}
    for each in chosen:
        known = [run for run in each.runs if not np.isnan(run.series("fork_recall", warmup)).all()]
        if known:
            means = {run.spec.seed: _mean_after(run, "fork_recall", warmup) for run in known}
            recalls[each.variant] = [means.get(seed, np.nan) for seed in seeds]
            kept[each.variant] = float(
                np.mean([_mean_after(run, "share_kept", warmup) for run in known])
            )
    return recalls, kept


def _mean_after(run: FinishedRun, name: str, warmup: int) -> float:
    return float(np.nanmean(run.series(name, warmup)))


def unparsed_shares(
    variants: Sequence[VariantRuns], seeds: Sequence[int]
) -> Mapping[str, FloatArray]:
    """By label the shares of samples without a readable answer after training, (seeds,) each; NaN
    where a run is missing."""
    shares = {
        each.variant.label: {run.spec.seed: run.after.unparsed for run in each.runs}
        for each in variants
    }
    return {
        label: np.array([by_seed.get(seed, np.nan) for seed in seeds])
        for label, by_seed in shares.items()
    }

"""Means over the runs of a variant: metrics at each step, tokens trained, time and memory."""

from collections.abc import Sequence

import numpy as np

from ictcli.compare.finished import FinishedRun, Runs
from ictcli.compare.statistics import BEFORE
from ictcli.evaluation.record import Record
from ictcli.train.finish import kept_tokens
from ictcli.types import FloatArray


class Curve(Record):
    """A metric over training: its mean, smallest and largest over the seeds at each step."""

    step: Sequence[int]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


class Cost(Record):
    """Mean times over steps and runs. Sampling and update times leave out a run's first step."""

    seconds_per_step: float
    sample_s: float
    update_s: float
    peak_bytes: int | None
    """The largest peak memory of any run; None if it was not measured."""


class TrainedTokens(Record):
    """Which tokens the runs of a variant trained: means over the runs, after any dense warm-up."""

    tokens_kept_share: float
    """Share of tokens trained over all steps, including the dense warm-up."""
    kept_prob: float | None = None
    branch_recall: float | None = None


def curve(runs: Sequence[FinishedRun], name: str) -> Curve:
    """Return the mean and range of a metric over runs, at the steps where any run has a value."""
    values = np.array([run.series(name) for run in runs])
    places = np.flatnonzero(~np.isnan(values).all(axis=0)).tolist()
    values = values[:, places]
    return Curve(
        step=[place + 1 for place in places],
        mean=np.nanmean(values, axis=0).tolist(),
        low=np.nanmin(values, axis=0).tolist(),
        high=np.nanmax(values, axis=0).tolist(),
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
    kept = [kept_tokens(run.metrics, run.spec.recipe) for run in runs]

    def mean(name: str) -> float | None:
        values = [table[name] for table in kept if name in table]
        return float(np.mean(values)) if values else None

    return TrainedTokens(
        tokens_kept_share=float(np.mean([run.summary.tokens_kept_share for run in runs])),
        kept_prob=mean("kept_prob"),
        branch_recall=mean("branch_recall"),
    )


def greedy_scores(runs: Runs, seeds: Sequence[int]) -> dict[str, FloatArray]:
    """Return 1 for a correct greedy answer and 0 for a wrong one, (S, N) by label; NaN in rows of
    missing runs. The label BEFORE has a row for each model before training. Labels without greedy
    answers are left out."""
    finished = [run for of_variant in runs.values() for run in of_variant]
    before = {run.spec.recipe.model: run.before.solved for run in finished}
    rows = {BEFORE: [solved[0.0] for solved in before.values() if 0.0 in solved]}
    for label, of_variant in runs.items():
        after = {run.spec.seed: run.after.solved for run in of_variant}
        greedy = {seed: solved[0.0] for seed, solved in after.items() if 0.0 in solved}
        missing = np.full(of_variant[0].after.problems, np.nan)
        rows[label] = [greedy.get(seed, missing) for seed in seeds] if greedy else []
    return {label: np.array(solved) for label, solved in rows.items() if solved}

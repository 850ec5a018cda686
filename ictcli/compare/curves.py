"""Over the steps of a comparison's runs: the curves of their metrics, and the probes of dH2."""

from collections.abc import Sequence

import numpy as np

from ictcli.compare.comparison import Curve, Probe
from ictcli.compare.finished import FinishedRun


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


def mean_probe(run: FinishedRun) -> tuple[float, float]:
    pearson, error = zip(*probed(run).values(), strict=True)
    return float(np.mean(pearson)), float(np.mean(error))


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

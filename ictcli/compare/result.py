"""comparison.json: everything that a comparison found, from its run folders."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ictcli.compare import claims, common, course
from ictcli.compare.forks import compare_forks
from ictcli.compare.paper import paper_table
from ictcli.compare.plan import Member, Plan
from ictcli.compare.runs import Summaries
from ictcli.compare.statistics import BEFORE, differences, estimate, scores_of
from ictcli.compare.table import rows_of
from ictcli.engine import Engine
from ictcli.errors import RunFailedError
from ictcli.evaluation.passk import pass_at_k
from ictcli.launch import environment
from ictcli.recipe import to_toml
from ictcli.types import FloatArray, IntArray

FORMAT = 2
CURVES = ("reward", "entropy", "renyi2", "share_kept", "length", "grad_norm")
FORK_METHODS = ("ict", "random", "entropy20")


def gather(
    plan: Plan,
    runs: Sequence[Member],
    summaries: Summaries,
    engine: Engine,
    *,
    baseline: str,
    command: str,
    tuned: Mapping[str, Any] | None = None,
    failed: Sequence[str] = (),
) -> dict[str, Any]:
    """The dict of comparison.json. `tuned`: by label, each override with what it reached. Variants
    without a finished run are left out. RunFailedError where none finished."""
    done = [one for one in runs if one.folder in summaries]
    if not done:
        raise RunFailedError("Every run of the comparison failed.", f"see {plan.folder}")
    labels = list(dict.fromkeys(one.variant.label for one in done))
    first = done[0].recipe
    seeds = list(dict.fromkeys(one.seed for one in runs))
    correct, n = _counts(done, labels, seeds)
    scores = scores_of(correct, n, first.eval.k)
    base = next(
        (one for one in labels if one == baseline or claims.method_of(one) == baseline), labels[0]
    )
    steps = {label: _read(done, label, "metrics.jsonl") for label in labels}
    chosen = [(one.variant, one.recipe) for one in done if one.seed == done[0].seed]
    shared = common.common_rollouts(chosen, engine)
    forks = compare_forks(shared)
    probes = {label: [_probe(run) for run in steps[label]] for label in labels}
    estimates = {
        metric: {label: estimate(values).json() for label, values in mine.items()}
        for metric, mine in scores.items()
    }
    found = [
        *claims.accuracy_claims(scores, {f.method: f.own.share for f in forks} or None),
        *claims.fork_claims(_recalls(steps, done), {f.method: f.own.share for f in forks}),
        *course.entropy_claims(
            {label: [_series(run, "entropy") for run in steps[label]] for label in labels}
        ),
        *course.prediction_claims(_means(_subject({k: v for k, v in probes.items() if any(v)}))),
    ]
    return {
        "format": FORMAT,
        "command": command,
        "recipe": plan.source,
        "recipe_toml": to_toml(first),
        "overrides": list(plan.overrides),
        "task": first.task,
        "model": first.model,
        **_about(engine, done),
        "seeds": seeds,
        "steps": first.steps,
        "problems": int(next(iter(correct.values())).shape[1]),
        "n": n,
        "ks": list(first.eval.k),
        "baseline": base,
        "variants": [_variant(runs, summaries, label, tuned) for label in labels],
        "estimates": estimates,
        "differences": {
            metric: {label: one.json() for label, one in mine.items()}
            for metric, mine in differences(scores, base).items()
        },
        "claims": [claim.json() for claim in found],
        "passk": {label: _pass_curve(counts, n) for label, counts in correct.items()},
        "curves": {name: {label: _band(steps[label], name) for label in labels} for name in CURVES},
        "probe": {label: _probed(steps[label]) for label in labels if any(probes[label])},
        "places": common.places(shared),
        "overlap": common.overlap(shared),
        "forks": [row.json() for row in forks],
        "uniqueness": common.uniqueness(shared),
        "cost": {label: _cost(done, label, summaries) for label in labels},
        "paper": paper_table(first),
        "failed": list(failed),
        "rows": [
            {
                **row,
                **{metric: _interval(mine[row["method"]]) for metric, mine in estimates.items()},
            }
            for row in rows_of({(m.variant.label, m.seed): summaries[m.folder] for m in done})
        ],
    }


def _interval(found: dict[str, Any]) -> dict[str, Any]:
    return {key: found[key] for key in ("value", "low", "high")}


def _about(engine: Engine, done: Sequence[Member]) -> dict[str, Any]:
    about = environment(engine, done[0].recipe)
    named = {"ictcli": about["ictcli"], "python": about["python"], **about["libraries"]}
    system = f"{platform.system()} {platform.machine()}"
    return {"versions": {**named, "system": system}, "device": engine.describe()}


def _counts(
    done: Sequence[Member], labels: Sequence[str], seeds: Sequence[int]
) -> tuple[dict[str, IntArray], int]:
    """Correct samples by label, (seeds, problems) each, -1 where a run is missing; and of n."""
    asked = {one.folder: _evaluation(one.folder, "after") for one in done}
    n = next(iter(asked.values()))["n"]
    N = next(iter(asked.values()))["problems"]

    def table(of: Callable[[int], dict[str, Any] | None]) -> IntArray:
        found = [of(seed) for seed in seeds]
        return np.array([[-1] * N if one is None else one["correct"] for one in found])

    def after(label: str, seed: int) -> dict[str, Any] | None:
        mine = (m for m in done if m.variant.label == label and m.seed == seed)
        return next((asked[one.folder] for one in mine), None)

    def before(seed: int) -> dict[str, Any] | None:
        mine = (m for m in done if m.seed == seed)
        return next((_evaluation(one.folder, "before") for one in mine), None)

    counts = {BEFORE: table(before)}
    for label in labels:
        counts[label] = table(lambda seed, label=label: after(label, seed))
    return counts, n


def _evaluation(folder: Path, label: str) -> dict[str, Any]:
    return json.loads((folder / "eval" / f"{label}.json").read_text(encoding="utf-8"))


def _read(done: Sequence[Member], label: str, name: str) -> list[list[dict[str, Any]]]:
    """The lines of that file of each of a variant's runs."""
    return [
        [json.loads(line) for line in (one.folder / name).read_text(encoding="utf-8").splitlines()]
        for one in done
        if one.variant.label == label
    ]


def _series(run: Sequence[Mapping[str, Any]], name: str) -> FloatArray:
    values = [np.nan if line.get(name) is None else line[name] for line in run]
    return np.array(values, dtype=np.float64)


def _band(runs: Sequence[Sequence[Mapping[str, Any]]], name: str) -> dict[str, list[Any]]:
    """A curve's mean, smallest and largest over the seeds at each step that all have reached."""
    length = min(len(run) for run in runs)
    values = np.array([_series(run[:length], name) for run in runs])
    known = np.flatnonzero(~np.isnan(values).all(axis=0))
    values = values[:, known]
    return {
        "step": [runs[0][int(place)]["step"] for place in known],
        "mean": np.nanmean(values, axis=0).tolist(),
        "low": np.nanmin(values, axis=0).tolist(),
        "high": np.nanmax(values, axis=0).tolist(),
    }


def _probe(run: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """(Pearson's r, mean absolute error) of predicted dH2 at each step that probed."""
    return [
        (line["probe_pearson"], line["probe_error"])
        for line in run
        if line.get("probe_pearson") is not None and line.get("probe_error") is not None
    ]


def _subject(probes: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Of the variants that probed those of ict, which the claim is about, or else the first."""
    mine = {k: v for k, v in probes.items() if claims.method_of(k) == claims.SUBJECT}
    return mine or dict(list(probes.items())[:1])


def _means(
    probes: Mapping[str, Sequence[Sequence[tuple[float, float]]]],
) -> dict[str, list[tuple[float, float]]]:
    """One (r, error) a seed: the mean over its probes."""
    return {
        label: [(float(np.mean([r for r, _ in run])), float(np.mean([e for _, e in run])))
                for run in runs if run]
        for label, runs in probes.items()
    }  # fmt: skip


def _probed(runs: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, list[Any]]:
    """The probes at each step that every seed has probed: means over the seeds."""
    seen: list[dict[int, Mapping[str, Any]]] = [
        {line["step"]: line for line in run if _probe([line])} for run in runs
    ]
    steps = [step for step in seen[0] if all(step in one for one in seen)]

    def mean(name: str) -> list[float]:
        return [float(np.mean([one[step][name] for one in seen])) for step in steps]

    return {"step": steps, "pearson": mean("probe_pearson"), "error": mean("probe_error")}


def _recalls(
    steps: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]], done: Sequence[Member]
) -> dict[str, list[float]]:
    """Recall of the true forks while training, behind any dense warm-up, a mean a seed, of the
    methods the claim is about."""
    warmup = max((m.recipe.warmup for m in done if m.recipe.rule.dense_warmup), default=0)
    found: dict[str, list[float]] = {}
    for label in (one for one in FORK_METHODS if one in steps):
        curves = [_series(run[warmup:], "fork_recall") for run in steps[label]]
        if all((~np.isnan(curve)).any() for curve in curves):
            found[label] = [float(np.nanmean(np.asarray(curve, np.float64))) for curve in curves]
    return found


def _pass_curve(counts: IntArray, n: int) -> dict[str, float]:
    """pass@k for k = 1..n, the mean over runs that are there and problems."""
    flat = counts[(counts >= 0).all(axis=1)].ravel()
    return {str(k): float(pass_at_k(n, flat, k).mean()) for k in range(1, n + 1)}


def _cost(done: Sequence[Member], label: str, summaries: Summaries) -> dict[str, float | None]:
    timings = [line for run in _read(done, label, "timings.jsonl") for line in (run[1:] or run)]
    mine = [summaries[one.folder] for one in done if one.variant.label == label]
    return {
        "seconds_per_step": float(np.mean([one["train_s"] / one["steps"] for one in mine])),
        "sample_s": float(np.mean([line["sample_s"] for line in timings])),
        "update_s": float(np.mean([line["update_s"] for line in timings])),
        "peak_bytes": max(one["peak_bytes"] or 0 for one in mine) or None,
    }


def _variant(
    runs: Sequence[Member], summaries: Summaries, label: str, tuned: Mapping[str, Any] | None
) -> dict[str, Any]:
    mine = [one for one in runs if one.variant.label == label]
    rule = mine[0].recipe.rule
    return {
        "label": label,
        "method": rule.name,
        "source": rule.source,
        "summary": rule.summary,
        "overrides": list(mine[0].variant.overrides),
        "lr": mine[0].recipe.lr,
        "tuned": (tuned or {}).get(label),
        "runs": sum(one.folder in summaries for one in mine),
        "failed": sum(one.folder not in summaries for one in mine),
    }

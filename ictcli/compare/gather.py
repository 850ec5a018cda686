"""comparison.json: everything that a comparison found, from its run folders."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ictcli.compare import claims, entropy_claims, shared_rollouts
from ictcli.compare.design import Design, Grid, RunSpec, Variant
from ictcli.compare.finished import FinishedRun
from ictcli.compare.forks import compare_forks
from ictcli.compare.notes import notes_of
from ictcli.compare.paper import paper_table
from ictcli.compare.statistics import BEFORE, differences, estimate, scores_of
from ictcli.compare.table import rows_of
from ictcli.compare.trained import recalls, series, trained
from ictcli.engine import Engine
from ictcli.evaluation.passk import pass_at_k
from ictcli.recipe import Recipe, to_toml
from ictcli.train.launch import environment
from ictcli.types import IntArray

FORMAT = 2
CURVES = ("reward", "entropy", "renyi2", "share_kept", "length", "grad_norm")


def gather(
    design: Design,
    runs: Sequence[RunSpec],
    done: Sequence[FinishedRun],
    engine: Engine,
    *,
    baseline: str,
    command: str,
    tuned: Mapping[str, Any] | None = None,
    tuning: Grid | None = None,
    failed: Sequence[str] = (),
) -> dict[str, Any]:
    """The dict of comparison.json of `design` as it was asked for, from the runs that are `done` of
    those that were meant to be. `tuned`: by label, each override of the grid `tuning` with what it
    reached. Variants without a finished run are left out, with a note; one at least has some."""
    finished = {one.label for one in done}
    labels = [one.label for one in design.variants if one.label in finished]
    first = done[0].spec.recipe
    seeds = list(dict.fromkeys(one.seed for one in runs))
    correct, n = _counts(done, labels, seeds)
    scores = scores_of(correct, n, first.eval.k)
    base = next(
        (one for one in labels if one == baseline or claims.method_of(one) == baseline), labels[0]
    )
    steps = {label: [one.metrics for one in done if one.label == label] for label in labels}
    shared = shared_rollouts.sample_shared(_one_each(done, labels), engine)
    forks = compare_forks(shared)
    probes = {label: [_probe(run) for run in steps[label]] for label in labels}
    estimates = {
        metric: {label: estimate(values).json() for label, values in mine.items()}
        for metric, mine in scores.items()
    }
    found = [
        *claims.accuracy_claims(scores, {label: trained(done, label) for label in labels}),
        *claims.fork_claims(*recalls(done, seeds)),
        *entropy_claims.entropy_claims(
            {label: [series(run, "entropy") for run in steps[label]] for label in labels}
        ),
        *entropy_claims.prediction_claims(
            _means(_subject({k: v for k, v in probes.items() if any(v)}))
        ),
    ]
    return {
        "format": FORMAT,
        "command": command,
        "recipe": design.source,
        "recipe_toml": to_toml(first),
        "overrides": list(design.overrides),
        "task": first.task,
        "model": first.model,
        **_about(engine, done),
        "seeds": seeds,
        "steps": first.steps,
        "problems": int(next(iter(correct.values())).shape[1]),
        "n": n,
        "ks": list(first.eval.k),
        "baseline": base,
        "baseline_asked": baseline,
        "swept": design.swept,
        "tuned_key": tuning.key if tuning else None,
        "variants": [_variant(runs, done, label, tuned, tuning) for label in labels],
        "estimates": estimates,
        "differences": {
            metric: {label: one.json() for label, one in mine.items()}
            for metric, mine in differences(scores, base).items()
        },
        "claims": [claim.json() for claim in found],
        "passk": {label: _pass_curve(counts, n) for label, counts in correct.items()},
        "curves": {name: {label: _band(steps[label], name) for label in labels} for name in CURVES},
        "probe": {label: _probed(steps[label]) for label in labels if any(probes[label])},
        "places": {
            label: {**one, "high_low": _high_low(done, label)}
            for label, one in shared_rollouts.places(shared).items()
        },
        "overlap": shared_rollouts.overlap(shared),
        "forks": [row.json() for row in forks],
        "uniqueness": shared_rollouts.uniqueness(shared),
        "cost": {label: _cost([one for one in done if one.label == label]) for label in labels},
        "paper": paper_table(first),
        "failed": list(failed),
        "notes": notes_of(design, done, scores, base, baseline, tuned),
        "rows": [
            {
                **row,
                **{metric: _interval(mine[row["method"]]) for metric, mine in estimates.items()},
            }
            for row in rows_of(
                {
                    (one.label, one.spec.seed): one.summary
                    for label in labels
                    for one in done
                    if one.label == label
                }
            )
        ],
    }


def _interval(found: dict[str, Any]) -> dict[str, Any]:
    return {key: found[key] for key in ("value", "low", "high")}


def _about(engine: Engine, done: Sequence[FinishedRun]) -> dict[str, Any]:
    about = environment(engine, done[0].spec.recipe)
    named = {"ictcli": about["ictcli"], "python": about["python"], **about["libraries"]}
    system = f"{platform.system()} {platform.machine()}"
    return {"versions": {**named, "system": system}, "device": engine.describe()}


def _counts(
    done: Sequence[FinishedRun], labels: Sequence[str], seeds: Sequence[int]
) -> tuple[dict[str, IntArray], int]:
    """Correct samples by label, (seeds, problems) each, -1 where a run is missing; and of n."""
    n, N = done[0].after["n"], done[0].after["problems"]
    place = {seed: row for row, seed in enumerate(seeds)}
    counts = {label: np.full((len(seeds), N), -1) for label in (BEFORE, *labels)}
    for one in reversed(done):
        counts[one.label][place[one.spec.seed]] = one.after["correct"]
        counts[BEFORE][place[one.spec.seed]] = one.before["correct"]
    return counts, n


def _one_each(done: Sequence[FinishedRun], labels: Sequence[str]) -> list[tuple[Variant, Recipe]]:
    """Each variant's recipe, of one seed."""
    run_specs = {one.label: one.spec for one in reversed(done)}
    seed = {"seed": done[0].spec.seed}
    return [
        (run_specs[label].variant, run_specs[label].recipe.model_copy(update=seed))
        for label in labels
    ]


def _high_low(done: Sequence[FinishedRun], label: str) -> dict[str, Any]:
    """The high:low entropy ratio of the tokens trained behind any dense warm-up, a mean over the
    steps for each seed; None where no token of low entropy was ever kept, as entropy20 does."""
    mine = [one.summary["kept_tokens"].get("high_low_ratio") for one in done if one.label == label]
    known = [ratio for ratio in mine if ratio is not None]
    return {"mean": float(np.mean(known)) if known else None, "per_seed": mine}


def _band(runs: Sequence[Sequence[Mapping[str, Any]]], name: str) -> dict[str, list[Any]]:
    """A curve's mean, smallest and largest over the seeds at each step that all have reached."""
    length = min(len(run) for run in runs)
    values = np.array([series(run[:length], name) for run in runs])
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


def _probed(runs: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """The probes at each step that every seed has probed: the mean, the smallest and the largest
    of the seeds, and how many `runs` they are."""
    seen: list[dict[int, Mapping[str, Any]]] = [
        {line["step"]: line for line in run if _probe([line])} for run in runs
    ]
    steps = [step for step in seen[0] if all(step in one for one in seen)]

    found: dict[str, Any] = {"step": steps, "runs": len(seen)}
    for name in ("pearson", "error"):
        values = [[float(one[step][f"probe_{name}"]) for one in seen] for step in steps]
        found[name] = [float(np.mean(each)) for each in values]
        found[f"{name}_low"] = [min(each) for each in values]
        found[f"{name}_high"] = [max(each) for each in values]
    return found


def _pass_curve(counts: IntArray, n: int) -> dict[str, float]:
    """pass@k for k = 1..n, the mean over runs that are there and problems."""
    flat = counts[(counts >= 0).all(axis=1)].ravel()
    return {str(k): float(pass_at_k(n, flat, k).mean()) for k in range(1, n + 1)}


def _cost(mine: Sequence[FinishedRun]) -> dict[str, float | None]:
    timings = [line for one in mine for line in (one.timings[1:] or one.timings)]
    summaries = [one.summary for one in mine]
    return {
        "seconds_per_step": float(np.mean([one["train_s"] / one["steps"] for one in summaries])),
        "sample_s": float(np.mean([line["sample_s"] for line in timings])),
        "update_s": float(np.mean([line["update_s"] for line in timings])),
        "peak_bytes": max(one["peak_bytes"] or 0 for one in summaries) or None,
    }


def _variant(
    runs: Sequence[RunSpec],
    done: Sequence[FinishedRun],
    label: str,
    tuned: Mapping[str, Any] | None,
    tuning: Grid | None,
) -> dict[str, Any]:
    mine = [one for one in runs if one.variant.label == label]
    finished = sum(one.label == label for one in done)
    recipe, rule = mine[0].recipe, mine[0].recipe.rule
    swept = dict(override.split("=", 1) for override in mine[0].variant.overrides)
    return {
        "label": label,
        "method": rule.name,
        "source": rule.source,
        "summary": rule.summary,
        "overrides": list(mine[0].variant.overrides),
        "lr": recipe.lr,
        "swept": swept,
        "tuned": (tuned or {}).get(label),
        "tuned_key": tuning.key if tuning else None,
        "chosen": mine[0].chosen or None,
        "runs": finished,
        "failed": len(mine) - finished,
    }

"""Compute the `Comparison` from the finished runs."""

from collections.abc import Sequence

import numpy as np

from ictcli.compare import notes, run_means
from ictcli.compare.comparison import CURVES, Comparison, VariantRecord
from ictcli.compare.design import RunSpec
from ictcli.compare.differences import differences
from ictcli.compare.finished import FinishedRun, Runs, by_label, name_of
from ictcli.compare.plan import ComparisonPlan
from ictcli.compare.statistics import BEFORE, estimate, scores_of
from ictcli.compare.tuning import Tuned, means_of
from ictcli.recipe import to_toml
from ictcli.runs.read import read_environment
from ictcli.tables.numbers import listed
from ictcli.types import IntArray


def gather(
    plan: ComparisonPlan,
    specs: Sequence[RunSpec],
    done: Sequence[FinishedRun],
    *,
    command: str,
    tuned: Tuned,
    failed: Sequence[str],
) -> Comparison:
    """Return the comparison of the finished runs `done`; `specs` are all final runs, and `tuned`
    the scores of tuning runs. Variants without a finished run are left out, with a note."""
    runs = by_label(plan.design.variants, done)
    seeds = list(dict.fromkeys(spec.seed for spec in specs))
    first, environment = done[0], read_environment(done[0].spec.folder)
    recipe = first.spec.recipe
    scores = scores_of(_counts(runs, seeds, first.after.problems), first.after.n, recipe.eval.k)
    cells = run_means.greedy_scores(runs, seeds)
    greedy = {"greedy": cells} if cells else {}
    contrasts = [pair for pair in plan.contrasts if {pair.variant, pair.rival} <= runs.keys()]
    of_greedy = [pair for pair in contrasts if {pair.variant, pair.rival} <= cells.keys()]
    return Comparison(
        command=command,
        recipe=str(plan.design.source),
        recipe_toml=to_toml(recipe),
        overrides=plan.design.overrides,
        task=recipe.data_name,
        model=listed(list(dict.fromkeys(name_of(run.spec.recipe.model) for run in done))),
        versions={
            "ictcli": environment.ictcli or "",
            "python": environment.python or "",
            **environment.libraries,
            "system": (environment.platform or "").partition("-")[0],
        },
        device=environment.engine.to_json(),
        seeds=seeds,
        steps=recipe.steps,
        problems=first.after.problems,
        n=first.after.n,
        tuned_key=plan.tuning.grid.key if plan.tuning else None,
        baseline=plan.baseline,
        contrasts=contrasts,
        variants=[_variant(finished, plan, specs, tuned) for finished in runs.values()],
        estimates={
            metric: {label: estimate(values) for label, values in rows.items()}
            for metric, rows in {**scores, **greedy}.items()
        },
        differences=differences(scores, contrasts) | differences(greedy, of_greedy),
        curves={
            name: {label: run_means.curve(finished, name) for label, finished in runs.items()}
            for name in CURVES
        },
        training={label: run_means.trained_tokens(finished) for label, finished in runs.items()},
        cost={label: run_means.cost(finished) for label, finished in runs.items()},
        failed=failed,
        notes=[*plan.notes, *notes.notes_of(plan, runs, scores, tuned)],
    )


def _counts(runs: Runs, seeds: Sequence[int], problems: int) -> dict[str, IntArray]:
    """Return counts of correct samples (seeds, problems) by label; -1 in rows of missing runs."""
    counts = {label: np.full((len(seeds), problems), -1) for label in (BEFORE, *runs)}
    for run in (run for of_variant in runs.values() for run in of_variant):
        row = seeds.index(run.spec.seed)
        counts[run.spec.variant.label][row] = run.after.correct
        if counts[BEFORE][row][0] < 0:
            counts[BEFORE][row] = run.before.correct
    return counts


def _variant(
    runs: Sequence[FinishedRun], plan: ComparisonPlan, specs: Sequence[RunSpec], tuned: Tuned
) -> VariantRecord:
    spec = runs[0].spec
    variant, recipe, rule = spec.variant, spec.recipe, spec.recipe.rule
    return VariantRecord(
        label=variant.label,
        method=rule.name,
        source=rule.source,
        summary=rule.summary,
        overrides=variant.overrides,
        lr=recipe.lr,
        tuned=means_of(tuned.get(variant.label, {})) or None,
        tuned_runs=plan.tuning.runs if plan.tuning else 0,
        chosen=spec.chosen or None,
        runs=len(runs),
        failed=sum(spec.variant == variant for spec in specs) - len(runs),
    )

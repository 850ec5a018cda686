"""From the run folders of a comparison to its `Comparison`."""

from collections.abc import Mapping, Sequence

import numpy as np

from ictcli.compare import caveats, run_means, shared_rollouts
from ictcli.compare.claims import Claim, accuracy_claims, fork_claims, subjects
from ictcli.compare.comparison import CURVES, Comparison, Setting, VariantRecord
from ictcli.compare.design import RunSpec
from ictcli.compare.entropy_claims import entropy_claims, prediction_claims
from ictcli.compare.finished import FinishedRun, VariantRuns, by_variant
from ictcli.compare.gradients import attribution
from ictcli.compare.notes import notes_of, of_controls, of_crashes
from ictcli.compare.paper import paper_table
from ictcli.compare.plan import ComparisonPlan
from ictcli.compare.statistics import (
    BEFORE,
    PairedDifference,
    Scores,
    differences,
    differences_of_pairs,
    estimate,
    scores_of,
)
from ictcli.compare.tuning import Tuned
from ictcli.compare.variants import STOPPED
from ictcli.engine import Engine
from ictcli.evaluation.passk import pass_at_k
from ictcli.recipe import Recipe, to_toml
from ictcli.runs.read import read_environment
from ictcli.tables.numbers import counted
from ictcli.types import IntArray


def gather(
    plan: ComparisonPlan,
    specs: Sequence[RunSpec],
    done: Sequence[FinishedRun],
    engine: Engine,
    *,
    command: str,
    tuned: Tuned | None = None,
    failed: Sequence[str] = (),
) -> Comparison:
    """The comparison from the runs that are `done`, at least one, of the final ones `specs`.
    `tuned` holds what each override of the plan's grid reached. A variant without a finished run is
    left out, with a note."""
    variants = by_variant(plan.design.variants, done)
    by_label = {each.variant.label: each.runs for each in variants}
    setting = _setting(plan, specs, done, command)
    base = _used_baseline(variants, plan.baseline)
    n, seeds, ks = setting.n, setting.seeds, setting.ks
    correct = _counts(variants, seeds, setting.problems)
    scores = scores_of(correct, n, ks)
    crashed = caveats.crashed_runs(scores, run_means.unparsed_shares(variants, seeds))
    controls = _controls(variants)
    training = {each.variant: run_means.trained_tokens(each.runs) for each in variants}
    alike = {run.variant.label: at.variant.label for run, at in controls if is_beginning(at, run)}
    shared = shared_rollouts.sample_shared(_choosing(variants, _first(done).seed), engine)
    attributed, missing = attribution(variants, shared.domain, engine.tokenizer)
    return Comparison(
        **dict(setting),
        baseline=base,
        variants=[_variant(each, plan, specs, tuned) for each in variants],
        estimates={
            metric: {label: estimate(values) for label, values in by_variant.items()}
            for metric, by_variant in scores.items()
        },
        differences=differences(scores, base),
        crashed={label: [seeds[place] for place in at] for label, at in crashed.items()},
        differences_without_crashed=(
            differences(caveats.without(scores, crashed), base) if crashed else {}
        ),
        differences_from_stopped=_beyond_warmup(scores, alike, base),
        claims=[
            *accuracy_claims(scores, setting.task, list(training), training, crashed),
            *_other_claims(variants, seeds),
        ],
        passk={label: _pass_curve(counts, n) for label, counts in correct.items()},
        curves={
            name: {label: run_means.curve(runs, name) for label, runs in by_label.items()}
            for name in CURVES
        },
        probe={
            label: run_means.probe_of(runs)
            for label, runs in by_label.items()
            if any(map(run_means.probed, runs))
        },
        places=shared_rollouts.places(shared),
        training={variant.label: tokens for variant, tokens in training.items()},
        overlap=shared_rollouts.overlap(shared),
        forks=shared_rollouts.compare_forks(shared),
        attribution=attributed,
        uniqueness=shared_rollouts.uniqueness(shared),
        cost={label: run_means.cost(runs) for label, runs in by_label.items()},
        paper=paper_table(_first(done)),
        failed=failed,
        notes=[
            *of_crashes(crashed, seeds),
            *shared.failed,
            *missing,
            *of_controls(controls, alike),
            *notes_of(plan.design, variants, scores, base, plan.baseline, tuned),
        ],
    )


def _first(done: Sequence[FinishedRun]) -> Recipe:
    """The recipe of the first run that does not end with the warm-up."""
    return next((run for run in done if not run.spec.variant.stops), done[0]).spec.recipe


def _setting(
    plan: ComparisonPlan, specs: Sequence[RunSpec], done: Sequence[FinishedRun], command: str
) -> Setting:
    design, first = plan.design, _first(done)
    about = read_environment(done[0].spec.folder)
    return Setting(
        command=command,
        recipe=str(design.source),
        recipe_toml=to_toml(first),
        overrides=design.overrides,
        task=first.task,
        model=first.model,
        versions={
            "ictcli": about.ictcli or "",
            "python": about.python or "",
            **about.libraries,
            "system": (about.platform or "").partition("-")[0],
        },
        device=about.engine.to_json(),
        seeds=list(dict.fromkeys(spec.seed for spec in specs)),
        steps=first.steps,
        problems=done[0].after.problems,
        n=done[0].after.n,
        ks=first.eval.k,
        baseline_asked=plan.baseline,
        swept=design.swept,
        tuned_key=plan.grid.key if plan.grid else None,
    )


def _used_baseline(variants: Sequence[VariantRuns], asked: str) -> str:
    """The label of the first variant that is, or is of, the baseline asked for, or of the first."""
    known = [each.variant for each in variants]
    named = [each for each in known if asked in (each.label, each.method)]
    return (named or known)[0].label


def _choosing(variants: Sequence[VariantRuns], seed: int) -> dict[str, Recipe]:
    """By label the recipes that choose tokens, all with this seed."""
    chosen = [each for each in variants if not each.variant.stops or len(variants) == 1]
    return {each.variant.label: each.recipe.model_copy(update={"seed": seed}) for each in chosen}


def _controls(variants: Sequence[VariantRuns]) -> list[tuple[VariantRuns, VariantRuns]]:
    """Each variant with a dense warm-up that ends before it does, and the control that stops
    there, if there is one."""
    stopped = {each.variant: each for each in variants if each.variant.stops}
    return [
        (each, stopped[control])
        for each in variants
        if each.recipe.dense_steps and not each.is_dense
        if (control := each.variant.counterpart(STOPPED, stopped))
    ]


def is_beginning(control: VariantRuns, variant: VariantRuns) -> bool:
    """Whether the control trained as the variant did while it warmed up: tuning may have given
    them different settings."""
    free = {"method", "keep", "warmup", "seed", "steps"}
    first, other = (
        each.recipe.model_dump(exclude={**dict.fromkeys(free, True), "optimizer": {"decay_steps"}})
        for each in (control, variant)
    )
    return control.recipe.steps == variant.recipe.dense_steps and first == other


def _beyond_warmup(
    scores: Scores, alike: Mapping[str, str], base: str
) -> dict[str, dict[str, PairedDifference]]:
    """Differences of the variants with a dense warm-up from the runs that end with it; empty where
    there are none, or they are the baseline."""
    rivals = {label: control for label, control in alike.items() if control != base}
    return differences_of_pairs(scores, rivals) if rivals else {}


def _counts(
    variants: Sequence[VariantRuns], seeds: Sequence[int], problems: int
) -> dict[str, IntArray]:
    """Correct samples by label, (seeds, problems) each; -1 where a run is missing."""
    missing = np.full((len(seeds), problems), -1)
    counts = {BEFORE: missing.copy()}
    for each in variants:
        counts[each.variant.label] = missing.copy()
        for run in each.runs:
            row = seeds.index(run.spec.seed)
            counts[each.variant.label][row] = run.after.correct
            if counts[BEFORE][row][0] < 0:
                counts[BEFORE][row] = run.before.correct
    return counts


def _other_claims(variants: Sequence[VariantRuns], seeds: Sequence[int]) -> list[Claim]:
    """The claims on forks, entropy and dH2. The last is judged by the variants of ict, or else by
    the first variant that probed."""
    runs = {each.variant: each.runs for each in variants}
    means = {variant: run_means.mean_probes(its) for variant, its in runs.items()}
    probed = [variant for variant in runs if means[variant]]
    judged = subjects(probed) or probed[:1]
    return [
        *fork_claims(*run_means.fork_recalls(variants, seeds)),
        *entropy_claims({v: [run.series("entropy") for run in its] for v, its in runs.items()}),
        *prediction_claims({variant: means[variant] for variant in judged}),
    ]


def _pass_curve(counts: IntArray, n: int) -> dict[int, float]:
    """pass@k for k = 1..n, the mean over problems and the runs that are there."""
    flat = counts[(counts >= 0).all(axis=1)].ravel()
    return {k: float(pass_at_k(n, flat, k).mean()) for k in range(1, n + 1)}


def _variant(
    each: VariantRuns, plan: ComparisonPlan, specs: Sequence[RunSpec], tuned: Tuned | None
) -> VariantRecord:
    variant, recipe, rule = each.variant, each.recipe, each.recipe.rule
    return VariantRecord(
        label=variant.label,
        method=rule.name,
        source=rule.source,
        summary=rule.summary + variant.stops * f" Ends after {counted(recipe.steps, 'step')}.",
        overrides=variant.overrides,
        lr=recipe.lr,
        swept=dict(override.split("=", 1) for override in variant.overrides),
        tuned=(tuned or {}).get(variant.label),
        tuned_key=plan.grid.key if plan.grid else None,
        chosen=each.runs[0].spec.chosen or None,
        runs=len(each.runs),
        failed=sum(spec.variant == variant for spec in specs) - len(each.runs),
    )

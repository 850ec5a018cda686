"""From the run folders of a comparison to its `Comparison`."""

from collections.abc import Mapping, Sequence

import numpy as np

from ictcli.compare import notes, run_means, shared_rollouts
from ictcli.compare.claims import accuracy_tests, fork_tests
from ictcli.compare.comparison import CURVES, Claim, Comparison, Setting, VariantRecord
from ictcli.compare.design import RunSpec
from ictcli.compare.efficiency import efficiency
from ictcli.compare.entropy_claims import entropy_claims, entropy_tests, prediction_claims
from ictcli.compare.finished import FinishedRun, VariantRuns, by_variant, name_of
from ictcli.compare.gradients import attribution
from ictcli.compare.judging import ClaimTest, by_model, differences, judged
from ictcli.compare.paper import paper_table
from ictcli.compare.plan import FEW_SEEDS, ComparisonPlan
from ictcli.compare.statistics import BEFORE, Extra, estimates, scores_of
from ictcli.compare.tuning import Tries, Tuned, curve_of, extra_of
from ictcli.compare.variants import SIGNAL, STOPPED, SUBJECT
from ictcli.engine import Engine
from ictcli.evaluation.passk import pass_at_k
from ictcli.recipe import Recipe, to_toml
from ictcli.runs.read import read_environment
from ictcli.tables.numbers import counted, listed
from ictcli.types import FloatArray, IntArray


def gather(
    plan: ComparisonPlan,
    specs: Sequence[RunSpec],
    done: Sequence[FinishedRun],
    engine: Engine,
    *,
    command: str,
    tuned: Tuned | None = None,
    failed: Sequence[str] = (),
) -> tuple[Comparison, list[ClaimTest]]:
    """The comparison, and the tests of its claims on accuracy, from the runs that are `done`, at
    least one, of the final ones `specs`. `tuned` holds what tuning runs reached. A variant without
    a finished run is left out, with a note."""
    variants = by_variant(plan.design.variants, done)
    by_label = {each.label: each.runs for each in variants}
    setting = _setting(plan, specs, done, command)
    named = [each.label for each in variants if plan.baseline in (each.label, each.variant.method)]
    base = plan.baseline if plan.baseline in named else (named or list(by_label))[0]
    seeds = setting.seeds
    correct = _counts(variants, seeds, setting.problems)
    scores = scores_of(correct, setting.n, setting.ks)
    greedy = run_means.greedy_scores(variants, seeds)
    level = plan.looks.level
    extra: dict[str, dict[str, float]] = {}
    for each in variants:
        tries = (tuned or {}).get(each.label, {})
        for metric, value in extra_of(tries, each.runs[0].spec.chosen).items():
            extra.setdefault(metric, {})[each.label] = value
    crashed = notes.crashed_runs(variants, seeds)
    controls = _controls(variants)
    alike = {run.label: control.label for run, control in controls if is_beginning(control, run)}
    stopped = {label: control for label, control in alike.items() if control != base}
    training = {each.variant: run_means.trained_tokens(each.runs) for each in variants}
    rewarded = [each for each in variants if not each.variant.controls]
    own = _methods_of_controls(variants)
    choosing = [each for each in variants if not each.variant.stops]
    choosing = [each for each in choosing if SIGNAL not in each.variant.controls] or variants
    shared = shared_rollouts.sample_shared(
        {each.label: each.recipe for each in choosing}, _first(done).seed, engine
    )
    attributed, entropies, missing = attribution(variants, shared.domain, engine.tokenizer)
    tests = accuracy_tests(
        scores, setting.task, [each.variant for each in rewarded], training, crashed, extra
    )
    result = Comparison(
        **dict(setting),
        baseline=base,
        variants=[_variant(each, plan, specs, tuned, extra) for each in variants],
        estimates={metric: estimates(cells, metric, extra) for metric, cells in scores.items()}
        | ({"greedy": estimates(greedy, "greedy", {})} if greedy else {}),
        by_model=by_model(variants, seeds, scores, base, extra, level),
        sharpening=run_means.sharpenings(variants),
        readable=run_means.readable_accuracies(variants),
        differences=differences(scores, base, extra, level),
        differences_greedy=(
            differences({"greedy": greedy}, base, level=level) if base in greedy else {}
        ),
        crashed={label: [seeds[place] for place in at] for label, at in crashed.items()},
        differences_without_crashed=(
            differences(notes.without(scores, crashed), base, extra, level) if crashed else {}
        ),
        differences_from_stopped=differences(scores, stopped, level=level) if stopped else {},
        differences_from_method=differences(scores, own, extra, level) if own else {},
        claims=[
            *judged(tests, level),
            *_other_claims(rewarded, seeds, entropies if shared.domain.decisions else None, level),
        ],
        looks=plan.looks.seeds,
        planned_seeds=plan.looks.planned,
        level=level,
        passk={label: _pass_curve(counts, setting.n) for label, counts in correct.items()},
        curves={
            name: {label: run_means.curve(runs, name) for label, runs in by_label.items()}
            for name in CURVES
        },
        probe={
            label: run_means.probe_of(runs)
            for label, runs in by_label.items()
            if run_means.mean_probes(runs)
        },
        places=shared_rollouts.places(shared),
        training={variant.label: tokens for variant, tokens in training.items()},
        overlap=shared_rollouts.overlap(shared),
        forks=shared_rollouts.compare_forks(shared),
        attribution=attributed,
        uniqueness=shared_rollouts.uniqueness(shared),
        cost={label: run_means.cost(runs) for label, runs in by_label.items()},
        efficiency=efficiency(variants, base, seeds, shared.prompt_tokens, plan.cost_of),
        paper=paper_table(_first(done)),
        failed=failed,
        notes=[
            *notes.of_crashes(crashed, seeds),
            *shared.failed,
            *missing,
            *[FEW_SEEDS[2]] * (len(seeds) == 2),
            *notes.of_controls(controls, alike),
            *notes.notes_of(plan, variants, scores, base, tuned),
        ],
    )
    return result, tests


def _first(done: Sequence[FinishedRun]) -> Recipe:
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
        task=first.data_name,
        model=listed(list(dict.fromkeys(name_of(run.spec.recipe.model) for run in done))),
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
        tuned_key=plan.tuning.grid.key if plan.tuning else None,
    )


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


def _methods_of_controls(variants: Sequence[VariantRuns]) -> dict[str, str]:
    """By label of a control, the same method without, if that was trained too."""
    plain = [each.variant for each in variants if not each.variant.controls]
    controls = [each.variant for each in variants if each.variant.controls]
    pairs = ((each, own) for each in controls for own in plain)
    return {each.label: own.label for each, own in pairs if own.uncontrolled == each.uncontrolled}


def is_beginning(control: VariantRuns, variant: VariantRuns) -> bool:
    """Whether the control trained as the variant did while it warmed up: tuning may have given
    them different settings."""
    free = ("method", "keep", "warmup", "seed", "steps", "control")
    excluded = {**dict.fromkeys(free, True), "optimizer": {"decay_steps"}}
    first, other = (each.recipe.model_dump(exclude=excluded) for each in (control, variant))
    return control.recipe.steps == variant.recipe.dense_steps and first == other


def _counts(
    variants: Sequence[VariantRuns], seeds: Sequence[int], problems: int
) -> dict[str, IntArray]:
    """Correct samples by label, (seeds, problems) each; -1 where a run is missing."""
    labels = (BEFORE, *(each.label for each in variants))
    counts = {label: np.full((len(seeds), problems), -1) for label in labels}
    for run in (run for each in variants for run in each.runs):
        row = seeds.index(run.spec.seed)
        counts[run.spec.variant.label][row] = run.after.correct
        if counts[BEFORE][row][0] < 0:
            counts[BEFORE][row] = run.before.correct
    return counts


def _other_claims(
    variants: Sequence[VariantRuns],
    seeds: Sequence[int],
    entropies: Mapping[str, Mapping[int, FloatArray]] | None,
    level: float,
) -> list[Claim]:
    """The claims on forks, entropy and dH2. The last is judged by the variants of ict, or else by
    the first variant that probed. entropies: those of `gradients.attribution`; None for a task that
    knows no forks."""
    entropy = {each.variant: [run.series("entropy") for run in each.runs] for each in variants}
    means = {each.variant: run_means.mean_probes(each.runs) for each in variants}
    probed = [variant for variant, its in means.items() if its]
    predicted = [each for each in probed if each.method == SUBJECT] or probed[:1]
    courses = {"all tokens": run_means.courses(variants)}
    for row, kind in enumerate(("decisions", "free words"), 1):
        if entropies is not None:
            courses[kind] = {
                each.variant: {s: rows[[0, row]] for s, rows in entropies[each.label].items()}
                for each in variants
                if each.label in entropies
            }
    tests = [*fork_tests(*run_means.fork_recalls(variants, seeds)), *entropy_tests(courses)]
    predictions = prediction_claims({variant: means[variant] for variant in predicted})
    return [*judged(tests, level), *entropy_claims(entropy), *predictions]


def _pass_curve(counts: IntArray, n: int) -> dict[int, float]:
    flat = counts[(counts >= 0).all(axis=1)].ravel()
    return {k: float(pass_at_k(n, flat, k).mean()) for k in range(1, n + 1)}


def _means(tries: Tries, override: str) -> dict[str, float]:
    runs = [run for run in tries[override] if run is not None]
    return {metric: float(np.mean([run[metric] for run in runs])) for metric in (runs or [{}])[0]}


def _variant(
    each: VariantRuns,
    plan: ComparisonPlan,
    specs: Sequence[RunSpec],
    tuned: Tuned | None,
    extra: Extra,
) -> VariantRecord:
    variant, recipe, rule = each.variant, each.recipe, each.recipe.rule
    tries, chosen = (tuned or {}).get(variant.label, {}), each.runs[0].spec.chosen
    return VariantRecord(
        label=variant.label,
        method=rule.name,
        source=rule.source,
        summary=rule.summary + variant.stops * f" Ends after {counted(recipe.steps, 'step')}.",
        overrides=variant.overrides,
        lr=recipe.lr,
        swept=dict(override.split("=", 1) for override in variant.overrides),
        tuned={override: _means(tries, override) for override in tries} or None,
        tuned_runs={override: len(runs) for override, runs in tries.items()},
        tuned_curve=curve_of(tries),
        tuned_sd={
            metric: float(np.sqrt(of[variant.label]))
            for metric, of in extra.items()
            if variant.label in of
        },
        tuned_key=plan.tuning.grid.key if plan.tuning else None,
        chosen=chosen or None,
        runs=len(each.runs),
        failed=sum(spec.variant == variant for spec in specs) - len(each.runs),
    )

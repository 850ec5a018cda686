"""From the run folders of a comparison to its `Comparison`."""

from collections.abc import Mapping, Sequence

import numpy as np

from ictcli.compare import caveats, shared_rollouts
from ictcli.compare.attribution import attribution
from ictcli.compare.claims import SUBJECT, Claim, accuracy_claims, fork_claims
from ictcli.compare.comparison import (
    CURVES,
    Comparison,
    Cost,
    TrainedTokens,
    VariantRecord,
)
from ictcli.compare.curves import curve, mean_probe, probe_of, probed
from ictcli.compare.design import Design, RunSpec
from ictcli.compare.entropy_claims import entropy_claims, prediction_claims
from ictcli.compare.finished import FinishedRun, fork_recalls, trained_shares, unparsed_shares
from ictcli.compare.forks import compare_forks
from ictcli.compare.notes import notes_of
from ictcli.compare.numbers import counted
from ictcli.compare.paper import paper_table
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
from ictcli.compare.variants import STOPPED, Grid, counterpart, method_of
from ictcli.engine import Engine
from ictcli.evaluation.passk import pass_at_k
from ictcli.recipe import to_toml
from ictcli.runs.read import read_environment
from ictcli.types import IntArray


def gather(
    design: Design,
    specs: Sequence[RunSpec],
    done: Sequence[FinishedRun],
    engine: Engine,
    *,
    baseline: str,
    command: str,
    tuned: Tuned | None = None,
    tuning: Grid | None = None,
    failed: Sequence[str] = (),
) -> Comparison:
    """The comparison from the runs that are `done`, at least one, of those planned. `tuned`
    holds what each override of the grid `tuning` reached. A variant without a finished run is left
    out, with a note."""
    by_label = {
        variant.label: runs
        for variant in design.variants
        if (runs := [run for run in done if run.label == variant.label])
    }
    first = next((run for run in done if not run.spec.variant.stops), done[0]).spec.recipe
    seeds = list(dict.fromkeys(spec.seed for spec in specs))
    n, correct = done[0].after.n, _counts(by_label, seeds)
    scores = scores_of(correct, n, first.eval.k)
    labelled = (label for label in by_label if baseline in (label, method_of(label)))
    base = next(labelled, next(iter(by_label)))
    crashed = caveats.crashed_runs(scores, unparsed_shares(done, seeds))
    recipes = {
        label: runs[0].spec.recipe.model_copy(update={"seed": first.seed})
        for label, runs in by_label.items()
        if not runs[0].spec.variant.stops or len(by_label) == 1  # it chooses no tokens
    }
    shared = shared_rollouts.sample_shared(recipes, engine)
    attributed, missing = attribution(by_label, shared.domain, engine.tokenizer)
    about = read_environment(done[0].spec.folder)
    return Comparison(
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
        seeds=seeds,
        steps=first.steps,
        problems=done[0].after.problems,
        n=n,
        ks=first.eval.k,
        baseline=base,
        baseline_asked=baseline,
        swept=design.swept,
        tuned_key=tuning.key if tuning else None,
        variants=[
            _variant([spec for spec in specs if spec.variant.label == label], runs, tuned, tuning)
            for label, runs in by_label.items()
        ],
        estimates={
            metric: {label: estimate(values) for label, values in by_variant.items()}
            for metric, by_variant in scores.items()
        },
        differences=differences(scores, base),
        crashed={label: [seeds[place] for place in at] for label, at in crashed.items()},
        differences_without_crashed=(
            differences(caveats.without(scores, crashed), base) if crashed else {}
        ),
        differences_from_stopped=_beyond_warmup(by_label, scores, base),
        claims=_claims(by_label, seeds, scores, first.task, crashed),
        passk={label: _pass_curve(counts, n) for label, counts in correct.items()},
        curves={
            name: {label: curve(runs, name) for label, runs in by_label.items()} for name in CURVES
        },
        probe={label: probe_of(runs) for label, runs in by_label.items() if any(map(probed, runs))},
        places=shared_rollouts.places(shared),
        training={label: _trained(runs) for label, runs in by_label.items()},
        overlap=shared_rollouts.overlap(shared),
        forks=compare_forks(shared),
        attribution=attributed,
        uniqueness=shared_rollouts.uniqueness(shared),
        cost={label: _cost(runs) for label, runs in by_label.items()},
        paper=paper_table(first),
        failed=failed,
        notes=[
            *(caveats.note(label, at, seeds) for label, at in crashed.items()),
            *shared.failed,
            *missing,
            *(
                f"{rival} was trained otherwise than {label} while it warmed up: what the steps "
                f"of {label} behind that added is not known."
                for label, rival in _controls(by_label).items()
                if not is_beginning(by_label[rival][0], by_label[label][0])
            ),
            *notes_of(design, done, scores, base, baseline, tuned),
        ],
    )


def _beyond_warmup(
    by_label: Mapping[str, Sequence[FinishedRun]], scores: Scores, base: str
) -> dict[str, dict[str, PairedDifference]]:
    """Differences of the variants with a dense warm-up from the runs that end with it; empty where
    there are none, or they are the baseline or trained otherwise."""
    rivals = {
        label: rival
        for label, rival in _controls(by_label).items()
        if base != rival and is_beginning(by_label[rival][0], by_label[label][0])
    }
    return differences_of_pairs(scores, rivals) if rivals else {}


def _controls(by_label: Mapping[str, Sequence[FinishedRun]]) -> dict[str, str]:
    """By variant with a dense warm-up that ends before it does: the control that stops there."""
    stopped = [label for label, runs in by_label.items() if runs[0].spec.variant.stops]
    return {
        label: rival
        for label, runs in by_label.items()
        if runs[0].spec.recipe.dense_steps and not runs[0].is_dense
        if (rival := counterpart(label, STOPPED, stopped))
    }


def is_beginning(control: FinishedRun, run: FinishedRun) -> bool:
    """Whether the control trained as the run did while it warmed up: tuning may have given them
    different settings."""
    free = {"method", "keep", "warmup", "seed", "steps"}
    alike = (
        each.spec.recipe.model_dump(
            exclude={**dict.fromkeys(free, True), "optimizer": {"decay_steps"}}
        )
        for each in (control, run)
    )
    return control.spec.recipe.steps == run.spec.recipe.dense_steps and next(alike) == next(alike)


def _counts(
    by_label: Mapping[str, Sequence[FinishedRun]], seeds: Sequence[int]
) -> dict[str, IntArray]:
    """Correct samples by label, (seeds, problems) each; -1 where a run is missing."""
    problems = next(iter(by_label.values()))[0].after.problems
    counts = {label: np.full((len(seeds), problems), -1) for label in (BEFORE, *by_label)}
    for runs in by_label.values():
        for run in runs:
            row = seeds.index(run.spec.seed)
            counts[run.label][row] = run.after.correct
            if counts[BEFORE][row][0] < 0:
                counts[BEFORE][row] = run.before.correct
    return counts


def _claims(
    by_label: Mapping[str, Sequence[FinishedRun]],
    seeds: Sequence[int],
    scores: Scores,
    task: str,
    crashed: caveats.Crashed,
) -> list[Claim]:
    """Every claim that the runs can judge. That of dH2 is judged by the variants of ict, or else by
    the first variant that probed."""
    done = [run for runs in by_label.values() for run in runs]
    shares = {label: trained_shares(done, label) for label in by_label}
    entropy = {label: [run.series("entropy") for run in runs] for label, runs in by_label.items()}
    probes = {
        label: [mean_probe(run) for run in runs if probed(run)]
        for label, runs in by_label.items()
        if any(map(probed, runs))
    }
    subject = {label: pairs for label, pairs in probes.items() if method_of(label) == SUBJECT}
    return [
        *accuracy_claims(scores, task, shares, crashed),
        *fork_claims(*fork_recalls(done, seeds)),
        *entropy_claims(entropy),
        *prediction_claims(subject or dict(list(probes.items())[:1])),
    ]


def _pass_curve(counts: IntArray, n: int) -> dict[int, float]:
    """pass@k for k = 1..n, the mean over problems and the runs that are there."""
    flat = counts[(counts >= 0).all(axis=1)].ravel()
    return {k: float(pass_at_k(n, flat, k).mean()) for k in range(1, n + 1)}


def _cost(runs: Sequence[FinishedRun]) -> Cost:
    timings = [line for run in runs for line in (run.timings[1:] or run.timings)]
    seconds = [(run.summary.train_s or 0.0) / run.summary.steps for run in runs]
    return Cost(
        seconds_per_step=float(np.mean(seconds)),
        sample_s=float(np.mean([line.sample_s or 0.0 for line in timings])),
        update_s=float(np.mean([line.update_s or 0.0 for line in timings])),
        peak_bytes=max(run.summary.peak_bytes or 0 for run in runs) or None,
    )


def _trained(runs: Sequence[FinishedRun]) -> TrainedTokens:
    def mean(name: str) -> float | None:
        kept = (run.summary.kept_tokens for run in runs)
        values = [tokens[name] for tokens in kept if name in tokens]
        return float(np.mean(values)) if values else None

    return TrainedTokens(
        tokens_kept_share=float(np.mean([run.summary.tokens_kept_share for run in runs])),
        kept_prob=mean("kept_prob"),
        regime_high=mean("regime_high"),
        fork_recall=mean("fork_recall"),
        fork_precision=mean("fork_precision"),
        high_low_ratio=mean("high_low_ratio"),
        high_low_per_seed=[run.summary.kept_tokens.get("high_low_ratio") for run in runs],
    )


def _variant(
    specs: Sequence[RunSpec], done: Sequence[FinishedRun], tuned: Tuned | None, tuning: Grid | None
) -> VariantRecord:
    variant, recipe, rule = specs[0].variant, specs[0].recipe, specs[0].recipe.rule
    return VariantRecord(
        label=variant.label,
        method=rule.name,
        source=rule.source,
        summary=rule.summary + variant.stops * f" Ends after {counted(recipe.steps, 'step')}.",
        overrides=variant.overrides,
        lr=recipe.lr,
        swept=dict(override.split("=", 1) for override in variant.overrides),
        tuned=(tuned or {}).get(variant.label),
        tuned_key=tuning.key if tuning else None,
        chosen=specs[0].chosen or None,
        runs=len(done),
        failed=len(specs) - len(done),
    )

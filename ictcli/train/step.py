"""The parts of a training step after its batch: select tokens, optimise, measure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ictcli.algorithm.controls import controlled
from ictcli.algorithm.dynamics import diagnose, mean_or_none
from ictcli.algorithm.methods import Choice, Scored
from ictcli.algorithm.weights import normalise
from ictcli.engine import Engine
from ictcli.engine.update import Update
from ictcli.errors import RunFailedError
from ictcli.evaluation.record import among_readable
from ictcli.recipe import Recipe
from ictcli.rewards.shaping import formatted, mean_reward
from ictcli.runs.records import StepMetrics
from ictcli.runs.rollouts import Batch
from ictcli.seeds import generator
from ictcli.train.sample import taken_as_correct
from ictcli.types import LOGP, BoolArray, FloatArray, UpdateReport


@dataclass(frozen=True)
class StepSelection:
    """Trained tokens and weights of a step, of the whole batch (B, T) and by mini-batch."""

    kept: BoolArray
    weights: FloatArray
    mini_batches: tuple[Update, ...]


def mini_batches(recipe: Recipe) -> list[tuple[int, int]]:
    """Return the prompts of each optimiser update of an epoch, as (start, stop) of a slice."""
    size = recipe.update.minibatch or recipe.prompts
    return [(n, min(n + size, recipe.prompts)) for n in range(0, recipe.prompts, size)]


def select(recipe: Recipe, batch: Batch, step: int) -> StepSelection:
    """Return the tokens that the method selects in each mini-batch, with normalised weights."""
    weights = np.zeros(batch.rollouts.tokens.shape, dtype=np.float32)
    parts: list[Update] = []
    for first, last in mini_batches(recipe):
        part = _select(recipe, batch, step, first, last)
        rows, T = slice(first * recipe.group, last * recipe.group), part.weights.shape[1]
        weights[rows, :T] = part.weights
        parts.append(part)
    return StepSelection(weights != 0, weights, tuple(parts))


def _select(recipe: Recipe, batch: Batch, step: int, first: int, last: int) -> Update:
    method, rollouts = recipe.rule, batch.rollouts.groups(first, last)
    rows = slice(first * recipe.group, last * recipe.group)
    valid, advantage = rollouts.valid, batch.advantage[rows]
    dense = method.dense_warmup and step <= recipe.warmup
    if dense:
        choice = Choice(valid)
    else:
        scored = Scored(
            stats=rollouts.stats,
            logp=rollouts.logp,
            advantage=advantage,
            correct=taken_as_correct(recipe, batch)[rows],
            valid=valid,
            tokens=rollouts.tokens,
            texts=batch.texts[rows],
            group=recipe.group,
            rng=generator(recipe.seed, "select", step, first),
        )
        choice = method.rule(scored, recipe.options())
        chosen = np.asarray(getattr(choice, "kept", None))
        if chosen.shape != valid.shape or chosen.dtype != bool:
            raise RunFailedError(
                f"The method {method.name} returned no Choice with bool `kept` {valid.shape}.",
                "docs/extending.md has an example",
            )
    kept = choice.kept & valid  # a plugin's rule may ignore padding
    weights = normalise(kept, valid, method.normalisation, recipe.max_tokens)
    if choice.weight is not None:
        weights = (weights * np.where(kept, choice.weight, 0)).astype(np.float32)
    terms = tuple(term for term in choice.terms if term.coefficient.any())
    if not dense:
        rng = generator(recipe.seed, "control", step, first)
        weights, terms = controlled(
            recipe.control, weights, terms, advantage, rollouts.logp, valid, rng
        )
    objective = recipe.objective
    if (clip := choice.clip) is not None:
        objective = replace(objective, clip_on=clip.on, eps_low=clip.low, eps_high=clip.high)
    return Update(rollouts, weights, advantage, objective, terms=terms)


def optimise(
    recipe: Recipe, engine: Engine, batch: Batch, selection: StepSelection, step: int
) -> list[UpdateReport]:
    """Make the optimiser updates of a step, epochs x mini-batches, and return their reports. Stop
    after an update that is not finite; make none if the batch is not finite.

    With one mini-batch per epoch, pi_old, the policy before the step, is computed in the first
    epoch's forward pass: the first ratio pi / pi_old is exactly 1, at no cost. With more, pi_old
    must be known before the first update changes the weights: it is the sampler's log-probability
    or, if another policy sampled (`engine.sampler`), comes from an extra forward pass.
    """
    if not batch.finite:
        return []
    parts, off_policy = selection.mini_batches, recipe.engine.off_policy

    def old_logp_of(part: Update) -> FloatArray | None:
        if len(parts) == 1:
            return None
        if not off_policy:
            return part.rollouts.logp
        return engine.score(part.rollouts, (LOGP,), recipe.temperature)[LOGP]

    old = [old_logp_of(part) for part in parts]
    reports: list[UpdateReport] = []
    for _ in range(recipe.update.epochs):
        for number, part in enumerate(parts):
            sampler = part.rollouts.logp if off_policy else None
            update = replace(part, old_logp=old[number], sampler_logp=sampler)
            report = engine.update(update, recipe.lr_at(step))
            reports.append(report)
            if old[number] is None:
                old[number] = report.logp
            if not report.finite:
                return reports
    return reports


def is_finite(reports: Sequence[UpdateReport]) -> bool:
    """Return whether a step made updates, and all of them were finite."""
    return bool(reports) and all(report.finite for report in reports)


def measure(
    recipe: Recipe,
    step: int,
    batch: Batch,
    selection: StepSelection,
    reports: Sequence[UpdateReport],
) -> StepMetrics:
    """Return the metrics of a step; values that are not finite are None. Rewards, verdicts and
    lengths are those of the prompts as first sampled: replacement prompts (`sampling.redraw`) are
    selected for their signal, and would bias these metrics."""
    rollouts, first = batch.rollouts, batch.own
    statuses = [verdict.status for verdict in first.verdicts]
    correct, unparsed = (statuses.count(name) / len(statuses) for name in ("correct", "unparsed"))
    figures: dict[str, float | None] = {
        "reward": float(first.rewards.mean()),
        "reward_std": float(first.rewards.std()),
        "correct": correct,
        "unparsed": unparsed,
        "correct_readable": among_readable(correct, unparsed),
        "timed_out": statuses.count("timeout") / len(statuses),
        "formatted": sum(map(formatted, first.verdicts)) / len(statuses),
        "truncated": float(1 - first.rollouts.finished.mean()),
        "length": float(first.rollouts.lengths.mean()),
        "groups_with_signal": float(batch.has_signal.mean()),
        **{f"reward/{name}": mean_reward(verdicts) for name, verdicts in first.parts.items()},
        "redrawn": len(batch.redrawn) if recipe.sampling.redraw else None,
        **diagnose(rollouts, batch.advantage, selection.kept),
        "loss": mean_or_none([report.loss for report in reports]),
        "grad_norm": mean_or_none([report.grad_norm for report in reports]),
        "clip_fraction": _over_tokens(reports, "clip_fraction"),
        "kl": _over_tokens(reports, "kl") if recipe.kl > 0 else None,
        "lr": recipe.lr_at(step),
    }
    if reports and recipe.has_sampler_gap:
        figures["sampler_gap"] = reports[0].ratio_gap
    return StepMetrics(
        step=step,
        updates=sum(report.stepped for report in reports),
        finite=is_finite(reports),
        **{
            name: None if value is None or not math.isfinite(value) else value
            for name, value in figures.items()
        },
    )


def _over_tokens(reports: Sequence[UpdateReport], name: str) -> float | None:
    """Return the mean of a metric over the tokens of all updates; None if there are no updates."""
    total = sum(report.evaluated for report in reports)
    summed = sum(getattr(report, name) * report.evaluated for report in reports)
    return summed / max(total, 1) if reports else None

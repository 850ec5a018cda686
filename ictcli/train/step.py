"""The parts of one training step, in the order the trainer calls them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ictcli.algorithm.advantages import group_advantage
from ictcli.algorithm.dynamics import diagnose, validate
from ictcli.algorithm.methods import Choice, Scored
from ictcli.algorithm.weights import normalise
from ictcli.engine import Engine
from ictcli.recipe import Recipe
from ictcli.rewards import Verdict
from ictcli.rewards.shaping import formatted, shaped
from ictcli.seeds import generator, seed_of
from ictcli.tasks import Task, prompts
from ictcli.tasks.prepare import task_of as task_of
from ictcli.types import (
    BoolArray,
    FloatArray,
    Problem,
    Rollouts,
    Sampling,
    UpdateReport,
)


@dataclass(frozen=True)
class Batch:
    """Sampled and judged rollouts of one step: P problems, B rows."""

    problems: list[Problem]
    rollouts: Rollouts
    texts: list[str]
    verdicts: list[Verdict]
    rewards: FloatArray
    advantage: FloatArray

    @property
    def correct(self) -> BoolArray:
        return np.array([verdict.status == "correct" for verdict in self.verdicts])

    @property
    def finite(self) -> bool:
        """Whether the model still gives probabilities at all."""
        return bool(np.isfinite(self.rollouts.logp).all())


@dataclass(frozen=True)
class Plan:
    """Which tokens are trained and how much, (B, T) each."""

    kept: BoolArray
    weights: FloatArray
    """Normalised over each mini-batch: the batch of one optimiser update."""
    kl_old: FloatArray | None


@dataclass(frozen=True)
class Outcome:
    """What the step's optimiser updates did."""

    reports: list[UpdateReport]
    probe: dict[str, float | None]

    @property
    def finite(self) -> bool:
        return bool(self.reports) and all(report.finite for report in self.reports)


def sampling_of(recipe: Recipe, engine: Engine, temperature: float | None = None) -> Sampling:
    """How this recipe samples from this model."""
    return Sampling(
        max_tokens=recipe.max_tokens,
        temperature=recipe.temperature if temperature is None else temperature,
        top_p=recipe.sampling.top_p,
        top_k=recipe.sampling.top_k,
        stop_ids=engine.stop_ids,
    )


def sample_batch(
    recipe: Recipe, engine: Engine, task: Task, step: int, wanted: tuple[str, ...] = ()
) -> Batch:
    """Sample a group of rollouts for each problem of the step, and judge them. `wanted` are other
    statistics than the recipe's own."""
    problems = task.batch(recipe.seed, step, recipe.prompts)
    ids = prompts.encode(engine, problems, task.domain, recipe.prompt, recipe.max_tokens)
    seed = seed_of(recipe.seed, "sample", step)
    rollouts = engine.generate(
        ids, recipe.group, sampling_of(recipe, engine), seed, wanted or recipe.wanted_stats
    )
    texts = prompts.decode(engine.tokenizer, rollouts)
    verdicts = task.domain.judge(problems, texts)
    rewards = shaped(verdicts, rollouts.lengths, recipe.max_tokens, recipe.reward)
    advantage = group_advantage(rewards, recipe.group, scale=recipe.rule.scaled_advantage)
    return Batch(problems, rollouts, texts, verdicts, rewards, advantage)


def mini_batches(recipe: Recipe) -> Iterator[tuple[int, int]]:
    """(first, last) prompts of each optimiser update of an epoch."""
    size = recipe.update.minibatch or recipe.prompts
    for first in range(0, recipe.prompts, size):
        yield first, min(first + size, recipe.prompts)


def select(recipe: Recipe, batch: Batch, step: int) -> Plan:
    """Let the method choose tokens, one mini-batch at a time, and normalise its choice."""
    method, rollouts = recipe.rule, batch.rollouts
    kept = np.zeros(rollouts.tokens.shape, dtype=bool)
    weights = np.zeros(rollouts.tokens.shape, dtype=np.float32)
    kl_old = np.zeros(rollouts.tokens.shape, dtype=np.float32)
    for first, last in mini_batches(recipe):
        part = rollouts.groups(first, last)
        rows = slice(first * recipe.group, last * recipe.group)
        T = part.tokens.shape[1]
        if method.dense_warmup and step <= recipe.warmup:
            choice = Choice(part.valid)
        else:
            scored = Scored(
                stats=part.stats,
                logp=part.logp,
                advantage=batch.advantage[rows],
                correct=batch.correct[rows],
                valid=part.valid,
                group=recipe.group,
                rng=generator(recipe.seed, "select", step, first),
            )
            choice = method.rule(scored, recipe.options())
        chosen = choice.kept & part.valid  # a rule of a plugin may not know of padding
        kept[rows, :T] = chosen
        weights[rows, :T] = normalise(chosen, part.valid, method.normalisation, recipe.max_tokens)
        if choice.kl_old is not None:
            kl_old[rows, :T] = choice.kl_old
    return Plan(kept, weights, kl_old if kl_old.any() else None)


def optimise(recipe: Recipe, engine: Engine, batch: Batch, plan: Plan, step: int) -> Outcome:
    """Every optimiser update of the step: epochs x mini-batches; stops at one not finite.

    pi_old of one mini-batch an epoch is what the first epoch's own pass computes, so the first
    ratio is exactly 1 and no pass is added. With several it is the sampler's log-probability,
    since the later ones are evaluated under weights that have moved.
    """
    if not batch.finite:
        return Outcome([], {})
    rollouts, parts = batch.rollouts, list(mini_batches(recipe))
    where = _probed(recipe, batch, plan, step)
    before = engine.logits(rollouts, where) if where is not None else None
    probe: dict[str, float | None] = {}
    old: list[FloatArray | None] = [
        rollouts.groups(*part).logp if len(parts) > 1 else None for part in parts
    ]
    reports: list[UpdateReport] = []
    for number in range(len(parts) * recipe.update.epochs):
        which = number % len(parts)
        first, last = parts[which]
        part = rollouts.groups(first, last)
        rows, T = slice(first * recipe.group, last * recipe.group), part.tokens.shape[1]
        report = engine.update(
            part,
            plan.weights[rows, :T],
            batch.advantage[rows],
            recipe.objective,
            recipe.lr_at(step),
            old_logp=old[which],
            kl_old=None if plan.kl_old is None else plan.kl_old[rows, :T],
        )
        reports.append(report)
        if old[which] is None:
            old[which] = report.logp
        if number == 0 and where is not None and before is not None:
            probe = validate(before, engine.logits(rollouts, where))
        if not report.finite:
            break
    return Outcome(reports, probe)


def _probed(recipe: Recipe, batch: Batch, plan: Plan, step: int) -> BoolArray | None:
    """(B, T): a random few of the positions the first update trains, on steps that probe."""
    if not recipe.record.probe_every or step % recipe.record.probe_every:
        return None
    _, last = next(mini_batches(recipe))
    trained = plan.kept & (batch.advantage != 0)[:, None]
    trained[last * recipe.group :] = False
    places = np.argwhere(trained)
    chosen = generator(recipe.seed, "probe", step).permutation(len(places))
    where = np.zeros_like(trained)
    where[tuple(places[chosen[: recipe.record.probe_positions]].T)] = True
    return where if where.any() else None


def measure(
    recipe: Recipe,
    batch: Batch,
    plan: Plan,
    outcome: Outcome,
    step: int,
    forks: BoolArray | None = None,
) -> dict[str, Any]:
    """The step's line of metrics.jsonl; figures that do not exist are None. `forks` (B, T) are the
    true forks, where they are known."""
    rollouts, reports = batch.rollouts, outcome.reports
    statuses = [verdict.status for verdict in batch.verdicts]
    signal = (batch.advantage != 0).reshape(-1, recipe.group).any(axis=1)
    metrics: dict[str, Any] = {
        "step": step,
        "reward": float(batch.rewards.mean()),
        "reward_std": float(batch.rewards.std()),
        "correct": statuses.count("correct") / len(statuses),
        "unparsed": statuses.count("unparsed") / len(statuses),
        "timed_out": statuses.count("timeout") / len(statuses),
        "formatted": sum(map(formatted, batch.verdicts)) / len(statuses),
        "truncated": float(1 - rollouts.finished.mean()),
        "length": float(rollouts.lengths.mean()),
        "groups_with_signal": float(signal.mean()),
        **diagnose(rollouts, batch.advantage, plan.kept),
        **({} if forks is None else _fork_figures(forks, batch, plan.kept)),
        "loss": _mean([report.loss for report in reports]),
        "grad_norm": _mean([report.grad_norm for report in reports]),
        "clip_fraction": _mean([report.clip_fraction for report in reports]),
        "kl": _mean([report.kl for report in reports]) if recipe.kl > 0 else None,
        "updates": sum(report.stepped for report in reports),
        "finite": batch.finite and outcome.finite,
        "lr": recipe.lr_at(step),
        **outcome.probe,
    }
    if recipe.update.minibatch and recipe.update.minibatch < recipe.prompts and reports:
        metrics["sampler_gap"] = reports[0].ratio_gap
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in metrics.items()
    }


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def fork_mask(
    task: Task, problems: Sequence[Problem], rollouts: Rollouts, tokenizer: Any
) -> BoolArray | None:
    """(B, T): the tokens that hold a true fork, where the task knows its forks."""
    if task.domain.forks is None:
        return None
    mask = np.zeros(rollouts.tokens.shape, dtype=bool)
    ids = np.unique(rollouts.tokens[rollouts.valid])
    pieces = {int(i): tokenizer.decode([int(i)], skip_special_tokens=True) for i in ids}
    for row in range(len(rollouts)):
        tokens = [pieces[int(i)] for i in rollouts.tokens[row, : rollouts.lengths[row]]]
        ends = np.cumsum([len(piece) for piece in tokens])  # of each token, in characters
        found = task.domain.forks(problems[row // rollouts.group].prompt, "".join(tokens))
        mask[row, np.searchsorted(ends, found, side="right")] = True
    return mask


def _fork_figures(mask: BoolArray, batch: Batch, kept: BoolArray) -> dict[str, float | None]:
    both = int((mask & kept).sum())
    return {
        "fork_share": float(mask.sum() / batch.rollouts.lengths.sum()),
        "fork_recall": both / int(mask.sum()) if mask.any() else None,
        "fork_precision": both / int(kept.sum()) if kept.any() else None,
    }

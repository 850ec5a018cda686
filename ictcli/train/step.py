"""The parts of a training step: sample a batch, select tokens, optimise."""

from dataclasses import dataclass, replace

import numpy as np

from ictcli.algorithm.dynamics import validate
from ictcli.algorithm.methods import Choice, Scored
from ictcli.algorithm.quantities import kinds, statistic
from ictcli.algorithm.weights import group_advantage, normalise
from ictcli.engine import Engine
from ictcli.engine.update import Update
from ictcli.recipe import Recipe
from ictcli.rewards.shaping import shaped
from ictcli.runs.rollouts import Batch
from ictcli.seeds import generator, seed_of
from ictcli.tasks import Task, prompts
from ictcli.train.solutions import other_correct, require_room
from ictcli.types import BoolArray, FloatArray, Sampling, UpdateReport


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
    """Sample a group of rollouts for each problem of the step, and judge them. `wanted` replaces
    the statistics that the recipe's method wants."""
    problems = task.batch(recipe.seed, step, recipe.prompts)
    ids = prompts.encode(engine, problems, task.domain, task.prompt, recipe.max_tokens)
    seed = seed_of(recipe.seed, "sample", step)
    wanted = wanted or recipe.wanted_stats
    if "solution" in kinds(wanted):
        require_room(engine, ids, recipe.max_tokens)
    decoding = [name for name in wanted if statistic(name).while_decoding]
    rollouts = engine.generate(ids, recipe.group, sampling_of(recipe, engine), seed, decoding)
    texts = prompts.decode(engine.tokenizer, rollouts)
    verdicts = task.domain.judge(problems, texts)
    rewards = shaped(verdicts, rollouts.lengths, recipe.max_tokens, recipe.reward)
    advantage = group_advantage(rewards, recipe.group, scale=recipe.rule.scaled_advantage)
    batch = Batch(problems, rollouts, texts, verdicts, rewards, advantage)
    late = [name for name in wanted if name not in decoding]
    if not late:
        return batch
    solution = other_correct(batch.correct, recipe.group, generator(recipe.seed, "solution", step))
    stats = {**rollouts.stats, **engine.score(rollouts, late, solution=solution)}
    return replace(batch, rollouts=replace(rollouts, stats=stats))


@dataclass(frozen=True)
class StepSelection:
    """Which tokens a step trains and how much: over the batch, (B, T), and by mini-batch."""

    kept: BoolArray
    weights: FloatArray
    mini_batches: tuple[Update, ...]


def mini_batches(prompts: int, size: int) -> list[tuple[int, int]]:
    """(first, last) prompts of each optimiser update of an epoch; size 0: all in one."""
    return (
        [(n, min(n + size, prompts)) for n in range(0, prompts, size)] if size else [(0, prompts)]
    )


def select(recipe: Recipe, batch: Batch, step: int) -> StepSelection:
    """Let the method choose tokens, one mini-batch at a time, and normalise its choice."""
    weights = np.zeros(batch.rollouts.tokens.shape, dtype=np.float32)
    parts: list[Update] = []
    for first, last in mini_batches(recipe.prompts, recipe.update.minibatch):
        part = _select(recipe, batch, step, first, last)
        rows, T = slice(first * recipe.group, last * recipe.group), part.weights.shape[1]
        weights[rows, :T] = part.weights
        parts.append(part)
    return StepSelection(weights != 0, weights, tuple(parts))


def _select(recipe: Recipe, batch: Batch, step: int, first: int, last: int) -> Update:
    """The mini-batch of these prompts."""
    method, rollouts = recipe.rule, batch.rollouts.groups(first, last)
    rows = slice(first * recipe.group, last * recipe.group)
    valid, advantage = rollouts.valid, batch.advantage[rows]
    if method.dense_warmup and step <= recipe.warmup:
        choice = Choice(valid)
    else:
        scored = Scored(
            stats=rollouts.stats,
            logp=rollouts.logp,
            advantage=advantage,
            correct=batch.correct[rows],
            valid=valid,
            tokens=rollouts.tokens,
            texts=batch.texts[rows],
            group=recipe.group,
            rng=generator(recipe.seed, "select", step, first),
        )
        choice = method.rule(scored, recipe.options())
    kept = choice.kept & valid  # a plugin's rule may not know of padding
    weights = normalise(kept, valid, method.normalisation, recipe.max_tokens)
    if choice.weight is not None:
        weights = (weights * np.where(kept, choice.weight, 0)).astype(np.float32)
    terms = {name: term for name, term in choice.terms.items() if term.coefficient.any()}
    return Update(rollouts, weights, advantage, recipe.objective, terms=terms)


@dataclass(frozen=True)
class Updates:
    """What the step's optimiser updates did."""

    reports: list[UpdateReport]
    probe: dict[str, float | None]
    """Predicted and measured change of H2 (`ictcli.algorithm.dynamics`), on steps that probe."""

    @property
    def finite(self) -> bool:
        return bool(self.reports) and all(report.finite for report in self.reports)


def optimise(
    recipe: Recipe, engine: Engine, batch: Batch, selection: StepSelection, step: int
) -> Updates:
    """Every optimiser update of the step: epochs x mini-batches; stops at one not finite.

    With one mini-batch an epoch, pi_old is what the first epoch's own pass computes: the first
    ratio is exactly 1 and no pass is added. With several it is the sampler's log-probability,
    since the weights have moved when the later ones are evaluated.
    """
    if not batch.finite:
        return Updates([], {})
    parts = selection.mini_batches
    probed = _probed(recipe, batch, selection, step)
    before = engine.logits(batch.rollouts, probed) if probed is not None else None
    probe: dict[str, float | None] = {}
    old = [part.rollouts.logp if len(parts) > 1 else None for part in parts]
    reports: list[UpdateReport] = []
    for number in range(len(parts) * recipe.update.epochs):
        which = number % len(parts)
        update = replace(parts[which], old_logp=old[which])
        report = engine.update(update, recipe.lr_at(step))
        reports.append(report)
        if old[which] is None:
            old[which] = report.logp
        if number == 0 and probed is not None and before is not None:
            probe = validate(before, engine.logits(batch.rollouts, probed))
        if not report.finite:
            break
    return Updates(reports, probe)


def _probed(recipe: Recipe, batch: Batch, selection: StepSelection, step: int) -> BoolArray | None:
    """(B, T): a random few of the positions that the first update trains, on steps that probe."""
    if not recipe.record.probe_every or step % recipe.record.probe_every:
        return None
    trained = selection.kept & (batch.advantage != 0)[:, None]
    trained[len(selection.mini_batches[0].rollouts) :] = False
    places = np.argwhere(trained)
    chosen = generator(recipe.seed, "probe", step).permutation(len(places))
    where = np.zeros_like(trained)
    where[tuple(places[chosen[: recipe.record.probe_positions]].T)] = True
    return where if where.any() else None

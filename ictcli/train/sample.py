"""Sample and judge the rollouts of a step; replace groups with equal rewards."""

from dataclasses import replace

import numpy as np

from ictcli.engine import Engine
from ictcli.engine.sampling import NotFiniteError, join
from ictcli.recipe import Recipe
from ictcli.rewards import Verdict, find_verifier
from ictcli.rewards.shaping import control_reward, shaped
from ictcli.rewards.verifiers import name_of
from ictcli.runs.rollouts import Batch
from ictcli.seeds import generator, seed_of
from ictcli.tasks import Task, prompts
from ictcli.types import BoolArray, IntArray, Problem, Rollouts, Sampling


def sampling_of(recipe: Recipe, engine: Engine, temperature: float | None = None) -> Sampling:
    """Return the recipe's sampling settings, with the model's stop tokens."""
    return Sampling(
        max_tokens=recipe.max_tokens,
        temperature=recipe.temperature if temperature is None else temperature,
        top_p=recipe.sampling.top_p,
        top_k=recipe.sampling.top_k,
        stop_ids=engine.stop_ids,
    )


def training_sampling(recipe: Recipe, engine: Engine) -> Sampling:
    """Return `sampling_of`, with the sampler that is used in training (`engine.sampler`)."""
    return replace(sampling_of(recipe, engine), sampler=recipe.engine.sampler)


def sample_batch(recipe: Recipe, engine: Engine, task: Task, step: int) -> Batch:
    """Sample a group of rollouts for each problem of the step, and judge them.

    Groups with equal rewards are replaced by groups of other problems, `sampling.redraw` times at
    most (dynamic sampling: DAPO, arXiv 2503.14476, Eq. 11). Ours: groups that still have equal
    rewards stay in the batch, so that every batch is full."""
    problems = task.batch(recipe.seed, step, recipe.prompts)
    batch, asked = _draw(recipe, engine, task, problems, step), {p.id for p in problems}
    for number in range(1, recipe.sampling.redraw + 1):
        silent = np.flatnonzero(~batch.has_signal)
        if not len(silent):
            break
        drawn = task.batch(seed_of(recipe.seed, "redraw", number), step, recipe.prompts)
        problems = sorted(drawn, key=lambda problem: problem.id in asked)[: len(silent)]
        asked |= {problem.id for problem in problems}
        replacement = _draw(recipe, engine, task, problems, step, "redraw", number)
        batch = _replaced(batch, silent, replacement)
    return batch


def _draw(
    recipe: Recipe, engine: Engine, task: Task, problems: list[Problem], *purpose: int | str
) -> Batch:
    """Sample and judge a group for each problem, with a random seed that depends on the run's seed
    and `purpose`."""
    ids = prompts.encode(engine, problems, task.domain, task.prompt, recipe.max_tokens)
    seed = seed_of(recipe.seed, "sample", *purpose)
    sampling = training_sampling(recipe, engine)
    try:
        rollouts = engine.generate(ids, recipe.group, sampling, seed, recipe.wanted_stats)
    except NotFiniteError as error:  # the step will be skipped: `alarms.nonfinite`
        rollouts = error.rollouts
    return judge(recipe, engine, task, problems, rollouts, *purpose)


def judge(
    recipe: Recipe,
    engine: Engine,
    task: Task,
    problems: list[Problem],
    rollouts: Rollouts,
    *purpose: int | str,
) -> Batch:
    """Return the batch of these problems and rollouts, with verdicts, rewards and advantages."""
    texts = prompts.decode(engine.tokenizer, rollouts)
    share = engine.ranks.share  # only rank 0 runs the verifiers
    verdicts = share(lambda: task.domain.judge(problems, texts))
    parts = dict[str, list[Verdict]]()
    if recipe.reward.signal == "true":
        added = share(
            lambda: {
                name: task.domain.judge(problems, texts, by=find_verifier(verifier))
                for name, (verifier, _) in recipe.reward.added.items()
            }
        )
        rewards = shaped(verdicts, rollouts.lengths, recipe.max_tokens, recipe.reward, added)
        if added or getattr(task.domain.verify, "in_groups", False):
            name = name_of(task.domain.verify)
            parts = {"verdict" if name in added else name: verdicts, **added}
    else:
        rng = generator(recipe.seed, "reward", *purpose)
        rewards = control_reward(recipe.reward.signal, verdicts, rng)
    batch = Batch(problems, rollouts, texts, verdicts, rewards, np.zeros(len(texts)), parts)
    return with_advantage(recipe, batch)


def with_advantage(recipe: Recipe, batch: Batch) -> Batch:
    """Return the batch with advantages as computed by the recipe's method."""
    correct = taken_as_correct(recipe, batch)
    advantage = recipe.rule.advantage(batch.rewards, correct, recipe.group)
    return replace(batch, advantage=advantage)


def _replaced(batch: Batch, indices: IntArray, drawn: Batch) -> Batch:
    G, new = batch.rollouts.group, {int(n): i for i, n in enumerate(indices)}
    groups = [(drawn, new[n]) if n in new else (batch, n) for n in range(len(batch.problems))]
    rows = [(of, n * G + g) for of, n in groups for g in range(G)]
    return Batch(
        [of.problems[n] for of, n in groups],
        join([of.rollouts.groups(n, n + 1) for of, n in groups]),
        [of.texts[row] for of, row in rows],
        [of.verdicts[row] for of, row in rows],
        np.array([of.rewards[row] for of, row in rows]),
        np.array([of.advantage[row] for of, row in rows]),
        first=batch.own,
        redrawn=np.concatenate([batch.redrawn, drawn.rollouts.lengths]),
    )


def taken_as_correct(recipe: Recipe, batch: Batch) -> BoolArray:
    """Return (B,): whether the method treats a response as correct. With a control reward
    (`reward.signal`) these are the rewarded responses: verdicts do not influence training."""
    return batch.correct if recipe.reward.signal == "true" else batch.rewards > 0

"""What each method would keep of the same rollouts, against the true forks of the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ictcli import prompts
from ictcli.algorithm.advantages import group_advantage
from ictcli.algorithm.methods import Options, Scored
from ictcli.algorithm.selection import random_share
from ictcli.engine import Engine
from ictcli.recipe import Recipe
from ictcli.rewards import grade
from ictcli.seeds import generator, seed_of
from ictcli.step import fork_mask, sampling_of
from ictcli.tasks import find_task
from ictcli.types import ROW_STATS, BoolArray

PROBLEMS = 64
EQUAL_SHARE = 0.10


@dataclass(frozen=True)
class ForkFigures:
    """share: kept of all tokens; recall: kept of the forks; precision: forks of the kept."""

    share: float
    recall: float
    precision: float


@dataclass(frozen=True)
class ForkComparison:
    """One method on the common rollouts; `equal` is at 10 %, None where it has no share to set."""

    method: str
    own: ForkFigures
    random_at_own: ForkFigures
    equal: ForkFigures | None

    def json(self) -> dict[str, object]:
        return asdict(self)


def compare_forks(recipes: Sequence[Recipe], engine: Engine) -> list[ForkComparison]:
    """Sample one batch from the model before training, with every statistic the methods want.

    Each method chooses at its own share and at 10 %; beside the first, as many random tokens of
    the batch. Empty where the task does not know its forks.
    """
    base = recipes[0]
    task = find_task(base.task, base.reward)
    if task.domain.forks is None:
        return []
    problems = task.batch(base.seed, 1, PROBLEMS)
    ids = prompts.encode(engine, problems, task.domain, base.prompt, base.max_tokens)
    wanted = dict.fromkeys((*ROW_STATS, *(w for r in recipes for w in r.rule.wants)))
    rollouts = engine.generate(
        ids, base.group, sampling_of(base, engine), seed_of(base.seed, "forks"), tuple(wanted)
    )
    texts = prompts.decode(engine.tokenizer, rollouts)
    golds = [problem.gold for problem in problems for _ in range(base.group)]
    verdicts = grade(task.domain.verify, texts, golds)
    rewards = np.array([verdict.reward for verdict in verdicts])
    true_forks = fork_mask(task, problems, rollouts, engine.tokenizer)
    assert true_forks is not None
    valid = rollouts.valid

    def kept_by(recipe: Recipe, options: Options) -> BoolArray:
        method = recipe.rule
        scored = Scored(
            stats=rollouts.stats,
            logp=rollouts.logp,
            advantage=group_advantage(rewards, base.group, scale=method.scaled_advantage),
            correct=rewards == 1,
            valid=valid,
            group=base.group,
            rng=generator(base.seed, "forks", method.name),
        )
        return method.rule(scored, options).kept

    def figures(kept: BoolArray) -> ForkFigures:
        both = int((kept & true_forks).sum())
        return ForkFigures(
            share=int(kept.sum()) / int(valid.sum()),
            recall=both / max(int(true_forks.sum()), 1),
            precision=both / max(int(kept.sum()), 1),
        )

    found: list[ForkComparison] = []
    for recipe in recipes:
        options = recipe.options()
        own = figures(kept_by(recipe, options))
        blind = random_share(
            valid, own.share, generator(base.seed, "forks", "blind"), scope="batch"
        )
        equal = None
        if "keep" in type(options).model_fields:
            share = 1 - EQUAL_SHARE if recipe.rule.name == "frequent" else EQUAL_SHARE
            at_equal = options.model_copy(update={"keep": share})
            equal = figures(kept_by(recipe, at_equal))
        found.append(ForkComparison(recipe.rule.name, own, figures(blind), equal))
    return found

"""What each method would keep of the same rollouts, against the true forks of the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ictcli.algorithm.selection import random_share
from ictcli.engine import Engine
from ictcli.recipe import Recipe
from ictcli.seeds import generator
from ictcli.settings import UpdateSettings
from ictcli.step import fork_mask, sample_batch, select, task_of
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
    base = recipes[0].model_copy(update={"prompts": PROBLEMS})
    task = task_of(base)
    if task.domain.forks is None:
        return []
    wanted = dict.fromkeys((*ROW_STATS, *(w for r in recipes for w in r.rule.wants)))
    batch = sample_batch(base, engine, task, 1, tuple(wanted))
    true_forks = fork_mask(task, batch.problems, batch.rollouts, engine.tokenizer)
    assert true_forks is not None
    valid = batch.rollouts.valid

    def kept_by(recipe: Recipe, **options: float) -> BoolArray:
        whole = {"prompts": PROBLEMS, "update": UpdateSettings()}
        chooser = recipe.model_copy(update={**whole, "method": {**recipe.method, **options}})
        return select(chooser, batch, recipe.warmup + 1).kept

    def figures(kept: BoolArray) -> ForkFigures:
        both = int((kept & true_forks).sum())
        return ForkFigures(
            share=int(kept.sum()) / int(valid.sum()),
            recall=both / max(int(true_forks.sum()), 1),
            precision=both / max(int(kept.sum()), 1),
        )

    found: list[ForkComparison] = []
    for recipe in recipes:
        own = figures(kept_by(recipe))
        rng = generator(base.seed, "forks")
        blind = figures(random_share(valid, own.share, rng, scope="batch"))
        equal = None
        if "keep" in recipe.rule.options.model_fields:
            keep = 1 - EQUAL_SHARE if recipe.rule.name == "frequent" else EQUAL_SHARE
            equal = figures(kept_by(recipe, keep=keep))
        found.append(ForkComparison(recipe.rule.name, own, blind, equal))
    return found

"""How many of a task's true forks each variant keeps of the same rollouts."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ictcli.algorithm.selection import random_share
from ictcli.compare.common import Common
from ictcli.seeds import generator
from ictcli.types import BoolArray

EQUAL_SHARE = 0.10


@dataclass(frozen=True)
class ForkFigures:
    """share: kept of all tokens; recall: kept of the forks; precision: forks of the kept."""

    share: float
    recall: float
    precision: float


@dataclass(frozen=True)
class ForkComparison:
    """One variant on the common rollouts, beside as many random tokens of the batch; `equal` is at
    10 %, None where it has no share to set."""

    method: str
    own: ForkFigures
    random_at_own: ForkFigures
    equal: ForkFigures | None

    def json(self) -> dict[str, object]:
        return asdict(self)


def compare_forks(common: Common) -> list[ForkComparison]:
    """Each variant at its own share and at 10 %. Empty where the task does not know its forks."""
    true_forks, valid = common.forks, common.batch.rollouts.valid
    if true_forks is None:
        return []

    def figures(kept: BoolArray) -> ForkFigures:
        both = int((kept & true_forks).sum())
        return ForkFigures(
            share=int(kept.sum()) / int(valid.sum()),
            recall=both / max(int(true_forks.sum()), 1),
            precision=both / max(int(kept.sum()), 1),
        )

    found: list[ForkComparison] = []
    for label, recipe in common.recipes.items():
        own = figures(common.kept[label])
        rng = generator(recipe.seed, "forks")
        blind = figures(random_share(valid, own.share, rng, scope="batch"))
        equal = None
        if "keep" in recipe.rule.options.model_fields:
            keep = 1 - EQUAL_SHARE if recipe.rule.name == "frequent" else EQUAL_SHARE
            equal = figures(common.kept_at(label, keep=keep))
        found.append(ForkComparison(label, own, blind, equal))
    return found

"""How many of a task's true forks each variant keeps of the same rollouts."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ictcli.algorithm.selection import random_share
from ictcli.compare.crossed import near_bound
from ictcli.compare.shared_rollouts import SharedRollouts, kept_by
from ictcli.seeds import generator
from ictcli.types import BoolArray, FloatArray

EQUAL_SHARE = 0.10
RESAMPLES = 4999
LEAST_PROBLEMS = 10
"""With forks, for an interval over problems to mean anything."""


@dataclass(frozen=True)
class ForkFigures:
    """share: kept of all tokens; recall: kept of the forks; precision: forks of the kept."""

    share: float
    recall: float
    precision: float
    kept: int
    """Tokens kept."""
    hits: int
    """Forks among them."""
    recall_interval: tuple[float, float] | None = None
    """95 %, over problems (see `over_problems`); None where none is known."""
    precision_interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Gap:
    """By how much the recall at the equal share differs from another choice of as many tokens, on
    the same rollouts, with its 95 % interval over problems."""

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class ForkComparison:
    """One variant on the shared rollouts, beside as many random tokens of the batch; `equal` is at
    10 %, None where it has no share to set. tokens, forks, problems: of the batch."""

    method: str
    own: ForkFigures
    random_at_own: ForkFigures
    equal: ForkFigures | None
    tokens: int
    forks: int
    problems: int
    above_random: Gap | None = None
    """Against what as many random tokens keep on average, which is their share of the tokens."""
    above_entropy: Gap | None = None
    """Against as many tokens of the highest H1 of the batch."""


def compare_forks(shared: SharedRollouts) -> list[ForkComparison]:
    """Each variant at its own share and at 10 %. Empty where the task does not know its forks."""
    rollouts = shared.batch.rollouts
    forks, valid = shared.forks, rollouts.valid
    if forks is None:
        return []
    tokens, group = int(valid.sum()), rollouts.group
    per_problem = _per_problem(forks, group)
    entropy_rank = np.argsort(np.argsort(-rollouts.stats["entropy"][valid], kind="stable"))

    def figures(kept: BoolArray, *, bounded: bool = False) -> ForkFigures:
        hits, size = _per_problem(kept & forks, group), _per_problem(kept, group)
        return ForkFigures(
            share=float(size.sum()) / tokens,
            recall=float(hits.sum()) / max(float(per_problem.sum()), 1.0),
            precision=float(hits.sum()) / max(float(size.sum()), 1.0),
            kept=int(size.sum()),
            hits=int(hits.sum()),
            recall_interval=over_problems(hits, per_problem) if bounded else None,
            precision_interval=over_problems(hits, size) if bounded else None,
        )

    def gap(kept: BoolArray, other: FloatArray) -> Gap:
        """`other`: forks that the other choice keeps of each problem."""
        more = _per_problem(kept & forks, group) - other
        value = float(more.sum()) / max(float(per_problem.sum()), 1.0)
        return Gap(value, over_problems(more, per_problem, least=-1.0))

    compared: list[ForkComparison] = []
    for label, recipe in shared.recipes.items():
        own = figures(shared.kept[label], bounded=True)
        rng = generator(recipe.seed, "forks")
        blind = figures(random_share(valid, own.share, rng, scope="batch"))
        size = tokens, int(per_problem.sum()), len(per_problem)
        if "keep" not in recipe.rule.options.model_fields:
            compared.append(ForkComparison(label, own, blind, None, *size))
            continue
        keep = 1 - EQUAL_SHARE if recipe.rule.name == "frequent" else EQUAL_SHARE
        kept = kept_by(recipe, shared.batch, keep=keep)
        equal = figures(kept, bounded=True)
        highest = np.zeros_like(valid)
        highest[valid] = entropy_rank < equal.kept
        above_random = gap(kept, equal.share * per_problem)
        above_entropy = gap(kept, _per_problem(highest & forks, group))
        compared.append(
            ForkComparison(label, own, blind, equal, *size, above_random, above_entropy)
        )
    return compared


def over_problems(
    part: FloatArray, whole: FloatArray, least: float = 0.0
) -> tuple[float, float] | None:
    """95 % interval of sum(part) / sum(whole), (N,) each and in [`least`, 1], for other problems of
    the kind: percentile bootstrap that draws whole problems, since the tokens of one are alike, and
    at least `crossed.near_bound` of the problems' shares, since redrawing problems that are alike
    shows no luck. None where fewer than LEAST_PROBLEMS count. It is of this model and this seed's
    samples alone."""
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    if int((whole > 0).sum()) < LEAST_PROBLEMS:
        return None

    def ratio(a: Any, b: Any, axis: int) -> Any:
        return a.sum(axis=axis) / np.maximum(b.sum(axis=axis), 1e-12)

    low, high = (
        cast(Any, stats)
        .bootstrap(
            (part, whole),
            ratio,
            paired=True,
            vectorized=True,
            n_resamples=RESAMPLES,
            method="percentile",
            rng=np.random.default_rng(0),
        )
        .confidence_interval
    )
    counted = whole > 0
    at_least = near_bound((part[counted] / whole[counted])[None, :], least) or (low, high)
    return float(min(low, at_least[0])), float(max(high, at_least[1]))


def _per_problem(marked: BoolArray, group: int) -> FloatArray:
    """(B, T) marks as counts of each problem, (B / group,)."""
    return marked.reshape(-1, group * marked.shape[1]).sum(axis=1).astype(np.float64)

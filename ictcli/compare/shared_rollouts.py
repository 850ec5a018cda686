"""What the methods choose of the same rollouts: those of the model before training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ictcli.compare.design import Variant
from ictcli.engine import Engine
from ictcli.recipe import Recipe
from ictcli.recipe.settings import UpdateSettings
from ictcli.tasks.prepare import prepare
from ictcli.tasks.prompts import fitted
from ictcli.train.step import Batch, fork_mask, sample_batch, select
from ictcli.types import ROW_STATS, BoolArray, FloatArray

PROBLEMS = 64
BINS = 20
SURE = 0.99
"""Probability above which the model is sure of its token."""
CURVE = np.linspace(0.0, 1.0, 201)
"""Shares of tokens at which the sorted uniqueness is written down."""


@dataclass(frozen=True)
class SharedRollouts:
    """One batch, and what each variant keeps of it, (B, T) each."""

    batch: Batch
    forks: BoolArray | None
    kept: dict[str, BoolArray]
    recipes: dict[str, Recipe]

    def kept_at(self, label: str, **options: float) -> BoolArray:
        """What a variant would keep with other options."""
        return _kept_by(self.recipes[label], self.batch, **options)


def sample_shared(variants: Sequence[tuple[Variant, Recipe]], engine: Engine) -> SharedRollouts:
    """Sample one batch from the model before training, with every statistic the methods want, and
    ask each variant for its choice behind any dense warm-up."""
    recipes = {variant.label: recipe for variant, recipe in variants}
    base = next(iter(recipes.values())).model_copy(update={"prompts": PROBLEMS})
    base, task = prepare(base)
    task = fitted(engine, task, base.prompt, 1)
    wanted = dict.fromkeys((*ROW_STATS, "uniqueness"))
    wanted |= dict.fromkeys(name for recipe in recipes.values() for name in recipe.rule.wants)
    batch = sample_batch(base, engine, task, 1, tuple(wanted))
    forks = fork_mask(task, batch.problems, batch.rollouts, engine.tokenizer)
    kept = {label: _kept_by(recipe, batch) for label, recipe in recipes.items()}
    return SharedRollouts(batch, forks, kept, recipes)


def _kept_by(recipe: Recipe, batch: Batch, **options: float) -> BoolArray:
    whole = {"prompts": PROBLEMS, "update": UpdateSettings()}
    chooser = recipe.model_copy(update={**whole, "method": {**recipe.method, **options}})
    return select(chooser, batch, recipe.warmup + 1).kept


def overlap(common: SharedRollouts) -> dict[str, Any]:
    """Jaccard's index of the kept tokens of each two variants: shared of all that either keeps."""
    labels = list(common.kept)

    def index(one: BoolArray, other: BoolArray) -> float:
        either = int((one | other).sum())
        return int((one & other).sum()) / either if either else 1.0

    matrix = [[index(common.kept[a], common.kept[b]) for b in labels] for a in labels]
    return {"labels": labels, "jaccard": matrix}


def places(common: SharedRollouts) -> dict[str, Any]:
    """Where each variant's kept tokens lie: by position in the response and by entropy among all
    tokens, in BINS equal parts, in the regimes (R_H where p > beta), and with p > SURE: `sure`, and
    of all tokens `sure_all`."""
    rollouts = common.batch.rollouts
    valid, stats = rollouts.valid, rollouts.stats
    steps = np.arange(valid.shape[1], dtype=np.float64)
    position: FloatArray = steps[None, :] / np.maximum(rollouts.lengths, 1)[:, None]
    entropy = np.zeros(valid.shape)
    entropy[valid] = _ranks(stats["entropy"][valid])
    high, low = stats["prob"] > stats["purity"], stats["prob"] < stats["purity"]
    sure = stats["prob"] > SURE
    found: dict[str, Any] = {}
    for label, kept in common.kept.items():
        total = max(int(kept.sum()), 1)
        found[label] = {
            "tokens": int(kept.sum()),
            "position": _shares(position[kept]),
            "entropy": _shares(entropy[kept]),
            "regime_high": int((high & kept).sum()) / total,
            "regime_low": int((low & kept).sum()) / total,
            "sure": int((sure & kept).sum()) / total,
            "sure_all": int((sure & valid).sum()) / max(int(valid.sum()), 1),
        }
    return found


def _ranks(values: FloatArray) -> FloatArray:
    """The share of values below each, ties at their middle, in [0, 1)."""
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    ranks: Any = stats.rankdata(values)  # pyright: ignore[reportUnknownMemberType]
    return (np.asarray(ranks) - 0.5) / max(len(values), 1)


def _shares(values: FloatArray) -> list[float]:
    counts, _ = np.histogram(values, bins=BINS, range=(0.0, 1.0))
    return (counts / max(int(counts.sum()), 1)).tolist()


def uniqueness(common: SharedRollouts) -> dict[str, Any]:
    """The sorted curve of u over all tokens, and its elbow: the point farthest below the line from
    the first to the last."""
    rollouts = common.batch.rollouts
    values = np.sort(rollouts.stats["uniqueness"][rollouts.valid].astype(np.float64))[::-1]
    curve = np.interp(CURVE * (len(values) - 1), np.arange(len(values)), values)
    line = curve[0] + (curve[-1] - curve[0]) * CURVE
    elbow = int(np.argmax(line - curve))
    return {
        "share": CURVE.tolist(),
        "value": curve.tolist(),
        "zero": float((values <= 0).mean()),
        "elbow": {"share": float(CURVE[elbow]), "value": float(curve[elbow])},
    }

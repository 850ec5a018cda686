"""Which tokens the methods choose from the same rollouts, sampled before training."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ictcli.algorithm.attribution import SURE
from ictcli.algorithm.dynamics import ranks
from ictcli.algorithm.selection import random_share
from ictcli.engine import Engine
from ictcli.recipe import Recipe
from ictcli.recipe.tables import UpdateSettings
from ictcli.runs.rollouts import Batch
from ictcli.seeds import generator
from ictcli.tasks import Domain
from ictcli.tasks.forks import fork_mask
from ictcli.tasks.prepare import task_of
from ictcli.tasks.unread import usable
from ictcli.train.launch import failure_message
from ictcli.train.sample import sample_batch, with_advantage
from ictcli.train.step import select
from ictcli.types import ROW_STATS, BoolArray, FloatArray

PROBLEMS = 64
BINS = 20
CURVE = np.linspace(0.0, 1.0, 201)
"""Shares of tokens at which the sorted uniqueness is written down."""


@dataclass(frozen=True)
class SharedRollouts:
    """One batch, and what each variant keeps of it, (B, T) each."""

    batch: Batch
    forks: BoolArray | None
    kept: dict[str, BoolArray]
    recipes: dict[str, Recipe]
    """Of the variants in `kept`."""
    domain: Domain
    failed: list[str]
    """A sentence for each variant whose rule failed on the batch."""

    @property
    def prompt_tokens(self) -> float:
        """Mean length of the prompts."""
        return float(np.mean([len(prompt) for prompt in self.batch.rollouts.prompts]))


def sample_shared(recipes: Mapping[str, Recipe], seed: int, engine: Engine) -> SharedRollouts:
    """Sample one batch from the model before training, with every statistic the methods want, and
    let each variant choose from it as it does after any dense warm-up. `recipes`: by label; all
    take this seed."""
    recipes = {label: each.model_copy(update={"seed": seed}) for label, each in recipes.items()}
    first = next(iter(recipes.values()))
    sampling = first.sampling.model_copy(update={"redraw": 0})
    base = first.model_copy(update={"prompts": PROBLEMS, "sampling": sampling})
    task = usable(engine, task_of(base), 1)
    wanted = dict.fromkeys((*ROW_STATS, "uniqueness"))
    wanted |= dict.fromkeys(name for recipe in recipes.values() for name in recipe.wanted_stats)
    batch = sample_batch(base, engine, task, 1, tuple(wanted))
    forks = fork_mask(task, batch.problems, batch.rollouts, engine.tokenizer)
    kept: dict[str, BoolArray] = {}
    failed: list[str] = []
    for label, recipe in recipes.items():
        try:
            kept[label] = kept_by(recipe, batch)
        except Exception as error:  # a plugin's rule: what was trained is still compared
            failed.append(f"{label} failed on the shared rollouts: {failure_message(error)}")
    chosen = {label: recipes[label] for label in kept}
    return SharedRollouts(batch, forks, kept, chosen, task.domain, failed)


def kept_by(recipe: Recipe, batch: Batch) -> BoolArray:
    """What a recipe keeps of the batch, (B, T), by its own advantages."""
    chooser = recipe.model_copy(update={"prompts": PROBLEMS, "update": UpdateSettings()})
    return select(chooser, with_advantage(recipe, batch), recipe.warmup + 1).kept


@dataclass(frozen=True)
class Overlap:
    """Jaccard's index of the kept tokens of each two variants: kept by both, of all that either
    keeps."""

    labels: list[str]
    jaccard: list[list[float]]


def overlap(shared: SharedRollouts) -> Overlap:
    labels = list(shared.kept)

    def index(a: BoolArray, b: BoolArray) -> float:
        either = int((a | b).sum())
        return int((a & b).sum()) / either if either else 1.0

    matrix = [[index(shared.kept[a], shared.kept[b]) for b in labels] for a in labels]
    return Overlap(labels, matrix)


@dataclass(frozen=True)
class Places:
    """Where a variant's kept tokens lie, as shares of them."""

    tokens: int
    position: list[float]
    """By BINS equal parts of the response."""
    entropy: list[float]
    """By BINS equal parts of all tokens in order of entropy."""
    regime_high: float
    """R_H: p above the purity."""
    regime_low: float
    sure: float
    """p above SURE."""
    sure_all: float
    """The same, of all tokens."""


def places(shared: SharedRollouts) -> dict[str, Places]:
    """By variant, where its kept tokens lie."""
    rollouts = shared.batch.rollouts
    valid, stats = rollouts.valid, rollouts.stats
    steps = np.arange(valid.shape[1], dtype=np.float64)
    position: FloatArray = steps[None, :] / np.maximum(rollouts.lengths, 1)[:, None]
    entropy = np.zeros(valid.shape)
    # the share of tokens below each, ties at their middle
    entropy[valid] = (ranks(stats["entropy"][valid]) - 0.5) / max(int(valid.sum()), 1)
    high, low = stats["prob"] > stats["purity"], stats["prob"] < stats["purity"]
    sure = stats["prob"] > SURE

    def share(marked: BoolArray, kept: BoolArray) -> float:
        return int((marked & kept).sum()) / max(int(kept.sum()), 1)

    return {
        label: Places(
            tokens=int(kept.sum()),
            position=_shares(position[kept]),
            entropy=_shares(entropy[kept]),
            regime_high=share(high, kept),
            regime_low=share(low, kept),
            sure=share(sure, kept),
            sure_all=share(sure, valid),
        )
        for label, kept in shared.kept.items()
    }


def _shares(values: FloatArray) -> list[float]:
    counts, _ = np.histogram(values, bins=BINS, range=(0.0, 1.0))
    return (counts / max(int(counts.sum()), 1)).tolist()


@dataclass(frozen=True)
class UniquenessCurve:
    """The sorted curve of uniqueness u over all tokens, the highest first."""

    share: list[float]
    value: list[float]
    zero: float
    """The share of tokens with u = 0."""


def uniqueness(shared: SharedRollouts) -> UniquenessCurve:
    rollouts = shared.batch.rollouts
    values = np.sort(rollouts.stats["uniqueness"][rollouts.valid].astype(np.float64))[::-1]
    curve = np.interp(CURVE * (len(values) - 1), np.arange(len(values)), values)
    return UniquenessCurve(CURVE.tolist(), curve.tolist(), float((values <= 0).mean()))


@dataclass(frozen=True)
class ForkFigures:
    """share: kept of all tokens; recall: kept of the forks; precision: forks of the kept."""

    share: float
    recall: float
    precision: float
    kept: int
    hits: int


@dataclass(frozen=True)
class ForkComparison:
    """The true forks that one variant keeps of the shared rollouts, beside as many random tokens.
    tokens, forks, problems: of the batch. At an equal share: `bench/mechanism.py`."""

    method: str
    own: ForkFigures
    random_at_own: ForkFigures
    tokens: int
    forks: int
    problems: int


def compare_forks(shared: SharedRollouts) -> list[ForkComparison]:
    """Each variant at its own share. Empty where the task does not know its forks."""
    forks, valid = shared.forks, shared.batch.rollouts.valid
    if forks is None:
        return []
    size = int(valid.sum()), int(forks.sum()), len(shared.batch.problems)
    compared: list[ForkComparison] = []
    for label, kept in shared.kept.items():
        own = fork_figures(kept, forks, valid)
        rng = generator(shared.recipes[label].seed, "forks")
        blind = random_share(valid, own.share, rng, scope="batch")
        compared.append(ForkComparison(label, own, fork_figures(blind, forks, valid), *size))
    return compared


def fork_figures(kept: BoolArray, forks: BoolArray, valid: BoolArray) -> ForkFigures:
    """Of the tokens that are kept, (B, T) each."""
    tokens, hits = int(kept.sum()), int((kept & forks).sum())
    return ForkFigures(
        share=tokens / int(valid.sum()),
        recall=hits / max(int(forks.sum()), 1),
        precision=hits / max(tokens, 1),
        kept=tokens,
        hits=hits,
    )

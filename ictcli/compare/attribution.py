"""Where the gradient of each variant goes, from the rollouts that its runs recorded.

A figure of a run is the mean over its recorded steps behind every variant's dense warm-up, but for
variants that are dense to their end; of a variant, the mean over its runs. Beside it stands the
same under permuted rewards: in each group the rollouts swap their rewards, verdicts and advantages
at random, and the method chooses and weighs anew. What a figure has in common with that is no
signal of the rewards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from safetensors import SafetensorError

from ictcli.algorithm.attribution import KINDS, attribute
from ictcli.compare.crossed import infer
from ictcli.compare.finished import FinishedRun, VariantRuns
from ictcli.compare.numbers import listed
from ictcli.errors import UserError
from ictcli.files import numbered
from ictcli.recipe import Recipe
from ictcli.runs.rollouts import Batch, batch_of, read_rollouts
from ictcli.seeds import generator
from ictcli.tasks import Domain
from ictcli.tasks.forks import Decided, decided, plain
from ictcli.train.launch import failure_message
from ictcli.train.step import select
from ictcli.types import FloatArray

PERMUTATIONS = 20
SPREAD = 2.1
"""Standard deviations to either side that hold 95 % of permutations (Student's t of 20)."""
REGIMES = ("before", "after")
"""Tokens while the right answer is within reach, and after it is lost."""


@dataclass(frozen=True)
class SeedMean:
    """A mean over runs, with its 95 % interval over seeds (Student's t) where it has one."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Permuted:
    """A figure under permuted rewards: its mean over permutations, and where 95 % of them lie."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class GradientShare:
    """The share of the gradient that lies on tokens of a kind (`algorithm.attribution.KINDS`)."""

    kind: str
    raised: bool
    """Tokens that are made likelier, w A > 0; else less likely."""
    regime: str | None
    """One of REGIMES; None: both."""
    share: SeedMean
    permuted: Permuted


@dataclass(frozen=True)
class Loss:
    """Mean uniqueness of tokens before and after an answer is lost, and the rise."""

    before: SeedMean
    after: SeedMean
    rise: SeedMean


@dataclass(frozen=True)
class Attribution:
    """Where a variant's gradient goes."""

    runs: int
    steps: int
    """Recorded steps of a run, the fewest of any."""
    shares: Sequence[GradientShare]
    """Without forks: of sure tokens and the rest."""
    towards_right: tuple[SeedMean, Permuted] | None = None
    """`Attributed.towards_right`; None where the task does not know its forks."""
    uniqueness: Loss | None = None
    """None where it was not recorded, or no answer is known to be lost."""

    def share(self, kind: str, *, raised: bool) -> GradientShare | None:
        """Of a kind, in both regimes; None where the task does not know such tokens."""
        found = (s for s in self.shares if (s.kind, s.raised, s.regime) == (kind, raised, None))
        return next(found, None)


@dataclass(frozen=True)
class Figures:
    """Of one batch, or the mean of some: shares (..., 4, 2, 2) and towards_right (...), the first
    as it was trained and PERMUTATIONS permuted; uniqueness (4,) as of `_uniqueness`."""

    shares: FloatArray
    towards_right: FloatArray
    uniqueness: FloatArray


def attribution(
    variants: Sequence[VariantRuns], domain: Domain, tokenizer: Any
) -> tuple[dict[str, Attribution], list[str]]:
    """By label, and a sentence for each file that is damaged, for each variant whose rule failed
    under permuted rewards, and on the variants without a recorded step where others have some.
    Steps without a gradient are left out, and runs without a recorded step behind the warm-up."""
    chosen = [each for each in variants if not each.variant.stops and not each.is_dense]
    warmup = max((each.recipe.dense_steps for each in chosen), default=0)
    found: dict[str, Attribution] = {}
    missing: list[str] = []
    for each in chosen:
        steps = [_of_run(run, warmup, domain, tokenizer, missing.append) for run in each.runs]
        if recorded := [of_run for of_run in steps if of_run]:
            found[each.variant.label] = of_runs(recorded, knows_forks=domain.decisions is not None)
    labels = [each.variant.label for each in chosen]
    if found and (without := [label for label in labels if label not in found]):
        missing.append(f"No step of {listed(without)} says where the gradient went.")
    return found, list(dict.fromkeys(missing))


def _of_run(
    run: FinishedRun,
    warmup: int,
    domain: Domain,
    tokenizer: Any,
    say: Callable[[str], None],
) -> list[Figures]:
    """Of each recorded step behind the warm-up; `say` is told what is left out."""
    found: list[Figures] = []
    for step, path in numbered(run.spec.folder / "rollouts", r"step-(\d+)\.safetensors"):
        if step > warmup:
            try:
                arrays, description = read_rollouts(path)
                batch, weights = batch_of(arrays, description), arrays["weights"]
            except (SafetensorError, OSError, ValueError, KeyError, TypeError, UserError):
                say(f"{path} is damaged: the gradient of its step is left out.")
                continue
            if batch.finite and (weights * batch.advantage[:, None]).any():
                made = decided(domain, batch.problems, batch.rollouts, plain(tokenizer))
                try:
                    found.append(_of_step(batch, weights, run.spec.recipe, step, made))
                except Exception as error:  # a plugin's rule, which never saw such rewards
                    say(f"{run.label} failed under permuted rewards: {failure_message(error)}")
    return found


def _of_step(
    batch: Batch, weights: FloatArray, recipe: Recipe, step: int, made: Decided | None
) -> Figures:
    parts = [_attributed(batch, weights, made)]
    for number in range(PERMUTATIONS):
        permuted = permute(batch, generator(recipe.seed, "permuted", step, number))
        parts.append(_attributed(permuted, select(recipe, permuted, step).weights, made))
    shares, towards = zip(*parts, strict=True)
    return Figures(np.stack(shares), np.array(towards), _uniqueness(batch, made))


def permute(batch: Batch, rng: np.random.Generator) -> Batch:
    """The batch with rewards, verdicts and advantages swapped at random within each group."""
    B, group = len(batch.rollouts), batch.rollouts.group
    order = np.concatenate([first + rng.permutation(group) for first in range(0, B, group)])
    return replace(
        batch,
        verdicts=[batch.verdicts[row] for row in order],
        rewards=batch.rewards[order],
        advantage=batch.advantage[order],
    )


def _attributed(
    batch: Batch, weights: FloatArray, made: Decided | None
) -> tuple[FloatArray, float]:
    found = attribute(batch.rollouts, weights, batch.advantage, *(made.masks if made else ()))
    return found.shares, found.towards_right


def _uniqueness(batch: Batch, made: Decided | None) -> FloatArray:
    """(4,): sums before and after an answer is lost, then tokens; NaN where unknown."""
    u = batch.rollouts.stats.get("uniqueness")
    if u is None or made is None:
        return np.full(4, np.nan)
    valid = batch.rollouts.valid
    masks = valid & ~made.lost, valid & made.lost
    return np.array([*(u[mask].sum() for mask in masks), *(mask.sum() for mask in masks)])


def of_runs(runs: Sequence[Sequence[Figures]], *, knows_forks: bool) -> Attribution:
    """The figures of each run's steps as means of the variant."""
    shares = np.stack([np.mean([step.shares for step in run], axis=0) for run in runs])
    towards = np.stack([np.mean([step.towards_right for step in run], axis=0) for run in runs])
    u = np.stack([np.sum([step.uniqueness for step in run], axis=0) for run in runs])
    kinds = range(len(KINDS)) if knows_forks else (KINDS.index("sure"), KINDS.index("rest"))
    return Attribution(
        len(runs),
        min(map(len, runs)),
        [
            GradientShare(KINDS[kind], sign == 0, regime, *_beside_permuted(values))
            for kind in kinds
            for sign in (0, 1)
            for regime, values in (
                (None, shares[:, :, kind, sign].sum(axis=-1)),
                *((REGIMES[at], shares[:, :, kind, sign, at]) for at in (0, 1) if knows_forks),
            )
        ],
        _beside_permuted(towards, -1.0) if knows_forks else None,
        _loss(u[:, :2] / np.where(u[:, 2:] > 0, u[:, 2:], np.nan)),
    )


def _loss(u: FloatArray) -> Loss | None:
    """From uniqueness before and after, (runs, 2)."""
    u = u[~np.isnan(u).any(axis=1)]
    if not len(u):
        return None
    return Loss(seed_mean(u[:, 0]), seed_mean(u[:, 1]), seed_mean(u[:, 1] - u[:, 0], -1.0))


def _beside_permuted(values: FloatArray, least: float = 0.0) -> tuple[SeedMean, Permuted]:
    """Of (runs, 1 + PERMUTATIONS) figures, the first as it was trained."""
    permuted = values[:, 1:].mean(axis=0)
    mean, half = float(permuted.mean()), SPREAD * float(permuted.std(ddof=1))
    ends = max(mean - half, least), min(mean + half, 1.0)
    return seed_mean(values[:, 0], least), Permuted(mean, *ends)


def seed_mean(values: FloatArray, least: float = 0.0) -> SeedMean:
    """Of a figure of each run, in [`least`, 1]."""
    found = infer(values[:, None])
    if found.half is None:
        return SeedMean(found.mean, None, None)
    low, high = found.mean - found.half, found.mean + found.half
    return SeedMean(found.mean, max(low, least), min(high, 1.0))

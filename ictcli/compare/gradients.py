"""Where the gradient of each variant goes, from the rollouts that its runs recorded.

A figure of a run is the mean over its recorded steps after every variant's dense warm-up, but for
variants that are dense to their end; of a variant, the mean over its runs. `bench/mechanism.py`
sets it beside the same under permuted rewards.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from ictcli.algorithm.attribution import KINDS, Attributed, attribute
from ictcli.compare.finished import VariantRuns
from ictcli.compare.statistics import over_seeds
from ictcli.errors import UserError
from ictcli.files import numbered
from ictcli.runs.rollouts import Batch, batch_of, read_rollouts
from ictcli.tables import Span
from ictcli.tables.numbers import listed
from ictcli.tasks import Domain
from ictcli.tasks.forks import Decided, decided, plain
from ictcli.types import FloatArray

REGIMES = ("before", "after")
"""Tokens while the right answer is within reach, and after it is lost."""


@dataclass(frozen=True)
class GradientShare:
    """The share of the gradient that lies on tokens of a kind (`algorithm.attribution.KINDS`)."""

    kind: str
    raised: bool
    """Tokens that are made likelier, w A > 0; else less likely."""
    regime: str | None
    """One of REGIMES; None: both."""
    share: Span


@dataclass(frozen=True)
class LostUniqueness:
    """Mean uniqueness of tokens before and after an answer is lost, and the rise."""

    before: Span
    after: Span
    rise: Span


@dataclass(frozen=True)
class Attribution:
    """Where a variant's gradient goes."""

    runs: int
    steps: int
    """Recorded steps of a run, the fewest of any."""
    shares: Sequence[GradientShare]
    """Without forks: of sure tokens and the rest."""
    towards_right: Span | None = None
    """`Attributed.towards_right`; None where the task does not know its forks."""
    uniqueness: LostUniqueness | None = None
    """None where it was not recorded, or no answer is known to be lost."""

    def share(self, kind: str, *, raised: bool) -> GradientShare | None:
        """Of a kind, in both regimes; None where the task does not know such tokens."""
        shares = (s for s in self.shares if (s.kind, s.raised, s.regime) == (kind, raised, None))
        return next(shares, None)


@dataclass(frozen=True)
class RecordedStep:
    """A recorded step with a gradient, and what its choices came to."""

    number: int
    batch: Batch
    weights: FloatArray
    decided: Decided | None

    def attributed(self) -> Attributed:
        masks = self.decided.masks if self.decided else ()
        return attribute(self.batch.rollouts, self.weights, self.batch.advantage, *masks)

    def entropies(self) -> FloatArray:
        """(3,): the share of correct rollouts, and mean H1 of the tokens that hold a fork and of
        the others; NaN where unknown."""
        entropy = self.batch.rollouts.stats.get("entropy")
        if entropy is None or self.decided is None:
            return np.full(3, np.nan)
        valid, forks = self.batch.rollouts.valid, self.decided.forks
        means = [entropy[mask].mean() for mask in (valid & forks, valid & ~forks) if mask.any()]
        return np.array([self.batch.correct.mean(), *means] if len(means) == 2 else [np.nan] * 3)

    def uniqueness(self) -> FloatArray:
        """(4,): sums before and after an answer is lost, then tokens; NaN where unknown."""
        u = self.batch.rollouts.stats.get("uniqueness")
        if u is None or self.decided is None:
            return np.full(4, np.nan)
        valid = self.batch.rollouts.valid
        masks = valid & ~self.decided.lost, valid & self.decided.lost
        return np.array([*(u[mask].sum() for mask in masks), *(mask.sum() for mask in masks)])


def attribution(
    variants: Sequence[VariantRuns], domain: Domain, tokenizer: Any
) -> tuple[dict[str, Attribution], dict[str, dict[int, FloatArray]], list[str]]:
    """By label; by label and seed the `entropies` of each step (3, steps); and a sentence for each
    file that is damaged, and on the variants without a recorded step where others have some. Runs
    without a recorded step after the warm-up are left out."""
    chosen = [each for each in variants if not each.variant.stops and not each.is_dense]
    warmup = max((each.recipe.dense_steps for each in chosen), default=0)
    knows = domain.decisions is not None
    by_label: dict[str, Attribution] = {}
    entropies: dict[str, dict[int, FloatArray]] = {}
    missing: list[str] = []
    for each in chosen:
        recorded: dict[int, list[RecordedStep]] = {}
        for run in each.runs:
            steps = recorded_steps(run.spec.folder, warmup, domain, tokenizer, missing.append)
            if of_run := list(steps):
                recorded[run.spec.seed] = of_run
        if recorded:
            by_label[each.label] = of_runs(list(recorded.values()), knows_forks=knows)
            entropies[each.label] = {
                seed: np.array([step.entropies() for step in of_run]).T
                for seed, of_run in recorded.items()
            }
    labels = [each.label for each in chosen]
    if by_label and (without := [label for label in labels if label not in by_label]):
        missing.append(f"No step of {listed(without)} says where the gradient went.")
    return by_label, entropies, list(dict.fromkeys(missing))


def recorded_steps(
    run: Path, warmup: int, domain: Domain, tokenizer: Any, say: Callable[[str], None]
) -> Iterator[RecordedStep]:
    """The recorded steps of a run after the warm-up that have a gradient; `say` hears of damaged
    files."""
    for step, path in numbered(run / "rollouts", r"step-(\d+)\.safetensors"):
        if step <= warmup:
            continue
        try:
            arrays, description = read_rollouts(path)
            batch, weights = batch_of(arrays, description), arrays["weights"]
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, UserError):
            say(f"{path} is damaged: the gradient of its step is left out.")
            continue
        if batch.finite and (weights * batch.advantage[:, None]).any():
            choices = decided(domain, batch.problems, batch.rollouts, plain(tokenizer))
            yield RecordedStep(step, batch, weights, choices)


def of_runs(runs: Sequence[Sequence[RecordedStep]], *, knows_forks: bool) -> Attribution:
    """The figures of each run's steps as means of the variant."""
    attributed = [[step.attributed() for step in run] for run in runs]
    shares = np.stack([np.mean([step.shares for step in run], axis=0) for run in attributed])
    towards = np.array([np.mean([step.towards_right for step in run]) for run in attributed])
    sums = np.stack([np.sum([step.uniqueness() for step in run], axis=0) for run in runs])
    u = sums[:, :2] / np.where(sums[:, 2:] > 0, sums[:, 2:], np.nan)
    before, after = u[~np.isnan(u).any(axis=1)].T
    lost = None
    if before.size:
        ends = over_seeds(before, 0.0, 1.0), over_seeds(after, 0.0, 1.0)
        lost = LostUniqueness(*ends, over_seeds(after - before, -1.0, 1.0))
    kinds = range(len(KINDS)) if knows_forks else (KINDS.index("sure"), KINDS.index("rest"))
    found: list[GradientShare] = []
    for kind, sign in product(kinds, (0, 1)):
        by_regime: dict[str | None, FloatArray] = {None: shares[:, kind, sign].sum(axis=-1)}
        if knows_forks:
            by_regime |= {name: shares[:, kind, sign, at] for at, name in enumerate(REGIMES)}
        for regime, values in by_regime.items():
            share = over_seeds(values, 0.0, 1.0)
            found.append(GradientShare(KINDS[kind], sign == 0, regime, share))
    net = over_seeds(towards, -1.0, 1.0) if knows_forks else None
    return Attribution(len(runs), min(map(len, runs)), found, net, lost)

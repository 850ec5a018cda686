"""Data parallelism: several processes of the torch engine, on one machine or many, on one run.

A launcher starts the same command everywhere. Rank 0 begins a run and sends it (`ictcli.train`);
from then on every rank runs the same program, whose seeds are stateless, and meets the others in
the collectives of `Alone` and `ictcli_torch.ranks.Communicator`. Prompts are split by rank and so
are the rows of an update, whose gradients are summed; since weights are normalised over the whole
batch before, the sum is the whole batch's gradient, and every rank takes the same step from it.
Rank 0 judges and writes. Where memory runs out on one rank, all do its work again with less.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ictcli.engine.budget import Budget
from ictcli.engine.checksums import weights_fingerprint
from ictcli.engine.models import Source, snapshot
from ictcli.engine.packing import MicroBatch
from ictcli.engine.update import Update
from ictcli.errors import UserError
from ictcli.types import BoolArray, IntArray, Rollouts, UpdateReport

T = TypeVar("T")

SUMMED = ("loss", "clipped", "summed_kl", "evaluated", "tokens")
"""Figures of `UpdateReport` that are sums over the rows of an update."""


class Alone:
    """The only process."""

    rank, size = 0, 1

    @staticmethod
    def together() -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def gather(self, value: T) -> list[T]:
        return [value]

    def broadcast(self, value: T) -> T:
        return value

    def share(self, work: Callable[[], T]) -> T:
        return work()


class DataParallel(ABC):
    """An engine of one rank, which may be the only one. All ranks call its verbs at once."""

    ranks: Any = Alone()
    """This process among those of a launch (`ictcli_torch.ranks.Communicator`)."""
    parallelism = "replicated"
    """How the weights lie: all of them in every process, or "sharded"."""
    source: Source
    budget: Budget
    base = ""
    """The fingerprint of the weights below adapters."""
    optimizer: Any = None
    """Has `kinds`, `clip`, `step`, `drop_gradient`, `reset` and `state`."""
    joined = 0
    """Tokens up to which a pass of an update joins rows; 0: the budget alone limits it."""
    passes: Any
    """Passes over a micro-batch: `evaluate` gives any function of the logits at the wanted places,
    over the array namespace `xp`; `backward` adds a gradient to the optimiser's."""

    def check_same(self) -> None:
        """Raise UserError where ranks read other weights than each other: nothing else would say so
        of those that none sends. All ranks have to be here."""
        folder, adapter = snapshot(self.source.path), self.source.adapter
        below = self.base or (weights_fingerprint(folder) if folder else "")
        fingerprints = [below, weights_fingerprint(adapter) if adapter else ""]
        if any(others != fingerprints for others in self.ranks.gather(fingerprints)):
            raise UserError(
                f"The processes of the launch have different weights: {self.source.path}.",
                "every machine needs the same files of the model",
            )

    def prompts_of(self, count: int) -> tuple[int, int]:
        """Return the first of so many prompts that this rank takes, and the end of those."""
        edges = np.linspace(0, count, self.ranks.size + 1).round().astype(int)
        return int(edges[self.ranks.rank]), int(edges[self.ranks.rank + 1])

    def gathered(self, *, reference: bool = False) -> AbstractContextManager[None]:
        """Give this process all weights, or all of the reference, to sample and evaluate with. All
        ranks have to be here."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def policy(self, *, reference: bool) -> Generator[None]:
        """Have weights `gathered`, and the model be the reference policy if asked."""
        changed = self.as_reference() if reference else contextlib.nullcontext()
        with self.gathered(reference=reference), changed:
            yield

    @staticmethod
    def summed(parts: Sequence[UpdateReport]) -> UpdateReport:
        """Sum every rank's figures; each has the log-probabilities of its rows."""
        total = {name: sum(getattr(part, name) for part in parts) for name in SUMMED}
        logp = np.sum([part.logp for part in parts], axis=0)
        return UpdateReport(logp, ratio_gap=max(part.ratio_gap for part in parts), **total)

    def share_of(self, update: Update, rank: int | None = None) -> Update:
        """Return a rank's rows of an update, by default this one's: as many tokens a rank, and
        neighbours together, which share their prompt."""
        rows = self.rank_of(update) == (self.ranks.rank if rank is None else rank)
        return replace(update, weights=np.where(rows[:, None], update.weights, 0))

    def rank_of(self, update: Update) -> IntArray:
        """Return the rank (B,) of each row; it never falls from one row to the next."""
        tokens = np.where(update.trained.any(axis=1), update.rollouts.lengths, 0)
        middle = (np.cumsum(tokens) - tokens / 2) / max(int(tokens.sum()), 1)
        return np.minimum(middle * self.ranks.size, self.ranks.size - 1).astype(int)

    def micro_batches(
        self, rollouts: Rollouts, wanted: BoolArray, joined: int = 0
    ) -> Iterator[MicroBatch]:
        share = self.passes.share
        return self.budget.micro_batches(rollouts, wanted, joined=joined, share=share)

    def rounds(self, update: Update, own: Update) -> Iterator[tuple[MicroBatch, bool]]:
        """Return the passes over its `own` part, and others' that it has to join without a weight;
        each with whether it is its own."""
        return ((b, True) for b in self.micro_batches(own.rollouts, own.trained, self.joined))

    def agreed(self, work: Callable[[], T]) -> list[T]:
        """Return what `work` gives on every rank, by rank, within the same budget on all: it is
        called again where another rank had to shrink its own. All ranks have to be here."""
        result = work()
        while True:
            gathered = self.ranks.gather([[self.budget.tokens, self.budget.rows], result])
            budgets = [budget for budget, _ in gathered]
            if all(budget == budgets[0] for budget in budgets):
                return [part for _, part in gathered]
            tokens, rows = map(min, zip(*budgets, strict=True))
            if self.budget.lower(tokens, rows):  # else it was done with the least
                self.budget.say(
                    "Memory ran out on another process of the launch; what was under way is done "
                    f"again, with {tokens:,} tokens a pass and {rows:,} rows side by side."
                )
                result = work()

    @abstractmethod
    def as_reference(self) -> AbstractContextManager[None]:
        """Have the model be the reference policy within."""

    @abstractmethod
    def trained_weights(self) -> dict[str, Any]:
        """Return the weights that a run changes, each stored array once."""

    def sum_gradient(self) -> None:
        """Give the optimiser the sum of every rank's gradient, the same bits on each."""
        raise NotImplementedError

    def align(self) -> None:  # noqa: B027 (nothing, where there is one process)
        """Take rank 0's weights and moments, to the bit. All ranks have to be here."""

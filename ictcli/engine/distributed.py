"""Data parallelism: several processes of the torch engine, on one or many machines, train one run.

A launcher starts the same command in every process, or rank. Rank 0 prepares the run and sends it
to the others (`ictcli.train`). Then every rank runs the same program with the same seeds, and
exchanges values by `ictcli_torch.ranks.Communicator`. The ranks divide the prompts to sample and
the rows of an update. Token weights are first normalised over the whole batch, so the sum of the
ranks' gradients is the batch's gradient, and all ranks take the same step. Only rank 0 computes
rewards and writes files. If memory runs out on one rank, all repeat the work with lower limits."""

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
    """The `Communicator` of a single process: its collectives return the process's own value."""

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
    """The engine of one rank. All ranks call the methods of their engines at the same time."""

    ranks: Any = Alone()
    """`Alone`, or the `ictcli_torch.ranks.Communicator` of a launch of several processes."""
    parallelism = "replicated"
    """Whether every process holds all weights ("replicated") or a part of them ("sharded")."""
    source: Source
    budget: Budget
    base = ""
    """The fingerprint of the model's own weights if it has adapters, else empty."""
    optimizer: Any = None
    """The backend's optimiser: `kinds`, `clip`, `step`, `drop_gradient`, `reset` and `state`."""
    joined = 0
    """Maximum tokens of an update's pass over several prompts; 0: only the budget limits it."""
    passes: Any
    """The backend's passes over a micro-batch. `evaluate` applies a function to the logits of the
    wanted tokens; the function uses the array namespace `xp`; `backward` adds up the gradient."""

    def check_same(self) -> None:
        """Raise UserError if the ranks loaded different weights. All ranks must call this."""
        folder, adapter = snapshot(self.source.path), self.source.adapter
        base = self.base or (weights_fingerprint(folder) if folder else "")
        local = [base, weights_fingerprint(adapter) if adapter else ""]
        if any(fingerprints != local for fingerprints in self.ranks.gather(local)):
            raise UserError(
                f"The processes of the launch have loaded different weights: {self.source.path}.",
                "copy the same model files to every machine",
            )

    def prompts_of(self, count: int) -> tuple[int, int]:
        """Return the range [first, end) of this rank's prompts among `count` prompts."""
        edges = np.linspace(0, count, self.ranks.size + 1).round().astype(int)
        return int(edges[self.ranks.rank]), int(edges[self.ranks.rank + 1])

    def gathered(self, *, reference: bool = False) -> AbstractContextManager[None]:
        """Context in which this process holds all weights of the policy or the reference policy, to
        sample or evaluate with. All ranks must call this."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def policy(self, *, reference: bool) -> Generator[None]:
        """Context to evaluate the policy or the reference policy with all weights (`gathered`)."""
        changed = self.as_reference() if reference else contextlib.nullcontext()
        with self.gathered(reference=reference), changed:
            yield

    @staticmethod
    def summed(parts: Sequence[UpdateReport]) -> UpdateReport:
        """Return the figures of the whole update from the figures of every rank."""
        total = {name: sum(getattr(part, name) for part in parts) for name in SUMMED}
        logp = np.sum([part.logp for part in parts], axis=0)
        return UpdateReport(logp, ratio_gap=max(part.ratio_gap for part in parts), **total)

    def share_of(self, update: Update, rank: int | None = None) -> Update:
        """Return the update with weights of 0 in all rows but those of `rank` (default: this
        rank)."""
        rows = self.rank_of(update) == (self.ranks.rank if rank is None else rank)
        return replace(update, weights=np.where(rows[:, None], update.weights, 0))

    def rank_of(self, update: Update) -> IntArray:
        """Return the rank (B,) that computes each row. Neighbouring rows, which share a prompt, are
        kept together, and each rank gets about as many tokens."""
        tokens = np.where(update.trained.any(axis=1), update.rollouts.lengths, 0)
        middle = (np.cumsum(tokens) - tokens / 2) / max(int(tokens.sum()), 1)
        return np.minimum(middle * self.ranks.size, self.ranks.size - 1).astype(int)

    def micro_batches(
        self, rollouts: Rollouts, wanted: BoolArray, joined: int = 0
    ) -> Iterator[MicroBatch]:
        share = self.passes.share
        return self.budget.micro_batches(rollouts, wanted, joined=joined, share=share)

    def rounds(self, update: Update, own: Update) -> Iterator[tuple[MicroBatch, bool]]:
        """Yield the passes over `own`, this rank's part of the update, each with True. A sharded
        engine also yields passes of other ranks, with False, in which it must take part."""
        return ((b, True) for b in self.micro_batches(own.rollouts, own.trained, self.joined))

    def agreed(self, work: Callable[[], T]) -> list[T]:
        """Return every rank's result of `work`, ordered by rank. If memory ran out on one rank, the
        others lower their limits too and call `work` again. All ranks must call this."""
        result = work()
        while True:
            gathered = self.ranks.gather([[self.budget.tokens, self.budget.rows], result])
            budgets = [budget for budget, _ in gathered]
            if all(budget == budgets[0] for budget in budgets):
                return [part for _, part in gathered]
            tokens, rows = map(min, zip(*budgets, strict=True))
            if self.budget.lower(tokens, rows):  # else this rank has them already
                self.budget.say(
                    "Memory ran out in another process of the launch. ictcli repeats the work, "
                    f"with at most {tokens:,} tokens per pass and {rows:,} rows decoded at once."
                )
                result = work()

    @abstractmethod
    def as_reference(self) -> AbstractContextManager[None]:
        """Context in which the model is the reference policy."""

    @abstractmethod
    def trained_weights(self) -> dict[str, Any]:
        """Return the weights that are trained, by name; tied weights appear once."""

    def sum_gradient(self) -> None:
        """Sum the optimisers' gradients over all ranks; the result is bit-identical on each."""
        raise NotImplementedError

    def align(self) -> None:  # noqa: B027 (a single process has nothing to do)
        """Copy rank 0's weights and optimiser state to all ranks. All ranks must call this."""

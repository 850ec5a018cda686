"""Data parallelism: several processes of the torch engine, on one machine or many, on one run.

A launcher starts the same command everywhere. Rank 0 alone runs the command, and its engine has the
others do each verb too; they hold a model and nothing else: no recipe, no data, no run folder.
Prompts are split by rank and so are the rows of an update, whose gradients are summed; since
weights are normalised over the whole batch before, the sum is the whole batch's gradient, and every
rank takes the same step from it. Every rank works within rank 0's budget, and where memory runs out
on one, all do its work again with what it has left.
"""

import contextlib
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from ictcli.engine.budget import Budget
from ictcli.engine.checksums import weights_fingerprint
from ictcli.engine.models import Source, snapshot
from ictcli.engine.packing import MicroBatch
from ictcli.engine.update import Update
from ictcli.errors import RunFailedError, UserError
from ictcli.files import gate
from ictcli.types import BoolArray, IntArray, Rollouts, UpdateReport

T = TypeVar("T")

SUMMED = ("loss", "clipped", "summed_kl", "evaluated", "tokens")
"""Figures of `UpdateReport` that are sums over the rows of an update."""


@dataclass(frozen=True)
class Call:
    """What rank 0 has the others do: a verb of the engine, or `build` or `end`."""

    verb: str
    arguments: Sequence[Any] = ()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    budget: tuple[int, int, int] = (0, 0, 0)
    """Rank 0's tokens of a pass, rows side by side and longest row: a recipe, a checkpoint or work
    of its own may have changed them."""
    trusted: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """To build: the code that may run, as rank 0 knows it."""


def by_all(verb: Callable[..., T]) -> Callable[..., T]:
    """Have all ranks do a method at once. It is called on rank 0, which tells the others to call
    it too. With several processes `on_tokens` is ignored."""

    @wraps(verb)
    def do(engine: Any, *arguments: Any, **options: Any) -> T:
        with engine.ranks.together():
            if engine.ranks.size > 1:
                options.pop("on_tokens", None)
            engine.tell(verb.__name__, *arguments, **options)
            return verb(engine, *arguments, **options)

    return do


class Alone:
    """The only process."""

    rank, size = 0, 1

    @staticmethod
    def together() -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def gather(self, message: T) -> list[T]:
        return [message]


class DataParallel(ABC):
    """An engine of one rank, which may be the only one. On rank 0 its verbs are called; the others
    `work`."""

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
                f"The processes of the launch find other weights than each other: "
                f"{self.source.path}.",
                "every machine needs the same files of the model",
            )

    def prompts_of(self, count: int) -> tuple[int, int]:
        """Return the first of so many prompts that this rank takes, and the end of those."""
        edges = np.linspace(0, count, self.ranks.size + 1).round().astype(int)
        return int(edges[self.ranks.rank]), int(edges[self.ranks.rank + 1])

    def gathered(self, *, reference: bool = False) -> AbstractContextManager[None]:
        """Within, this process has all weights, or all of the reference, to sample and evaluate
        with. All ranks have to be here."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def policy(self, *, reference: bool) -> Generator[None]:
        """`gathered`, and the model is the reference policy where that is asked for."""
        changed = self.as_reference() if reference else contextlib.nullcontext()
        with self.gathered(reference=reference), changed:
            yield

    def of_rank(self, update: Update, report: UpdateReport) -> UpdateReport:
        """Figures with the log-probabilities of this rank's rows alone."""
        return replace(report, logp=report.logp[self.rank_of(update) == self.ranks.rank])

    @staticmethod
    def summed(parts: Sequence[UpdateReport]) -> UpdateReport:
        """Sum every rank's figures (`of_rank`)."""
        total = {name: sum(getattr(part, name) for part in parts) for name in SUMMED}
        logp = np.concatenate([part.logp for part in parts])
        return UpdateReport(logp, ratio_gap=max(part.ratio_gap for part in parts), **total)

    def share_of(self, update: Update, rank: int | None = None) -> Update:
        """A rank's rows of an update, by default this one's: as many tokens a rank, and neighbours
        together, which share their prompt."""
        rows = self.rank_of(update) == (self.ranks.rank if rank is None else rank)
        return replace(update, weights=np.where(rows[:, None], update.weights, 0))

    def rank_of(self, update: Update) -> IntArray:
        """(B,) the rank of each row; it never falls from one row to the next."""
        tokens = np.where(update.trained.any(axis=1), update.rollouts.lengths, 0)
        middle = (np.cumsum(tokens) - tokens / 2) / max(int(tokens.sum()), 1)
        return np.minimum(middle * self.ranks.size, self.ranks.size - 1).astype(int)

    def micro_batches(
        self, rollouts: Rollouts, wanted: BoolArray, joined: int = 0
    ) -> Iterator[MicroBatch]:
        share = self.passes.share
        return self.budget.micro_batches(rollouts, wanted, joined=joined, share=share)

    def rounds(self, update: Update, own: Update) -> Iterator[tuple[MicroBatch, bool]]:
        """The passes over its `own` part, and others' that it has to join without a weight; each
        with whether it is its own."""
        return ((b, True) for b in self.micro_batches(own.rollouts, own.trained, self.joined))

    def tell(self, verb: str, *arguments: Any, **options: Any) -> None:
        """On rank 0, have the others do a verb too."""
        if self.ranks.rank == 0 and self.ranks.size > 1:
            budget = self.budget.tokens, self.budget.rows, self.budget.longest
            self.ranks.broadcast(Call(verb, arguments, options, budget))

    def agreed(self, work: Callable[[], T]) -> list[T]:
        """Return what `work` gives on every rank, by rank, within the same budget on all: it is
        called again where another rank had to shrink its own. All ranks have to be here."""
        results = [work()]
        while True:
            gathered = self.ranks.gather([[self.budget.tokens, self.budget.rows], results[0]])
            budgets, parts = zip(*gathered, strict=True)
            tokens, rows = map(min, zip(*budgets, strict=True))
            if all(budget == budgets[0] for budget in budgets):
                return [*parts]
            del gathered, parts
            if not self.budget.lower(tokens, rows):
                continue  # done with the least already
            results.clear()
            self.budget.say(
                "Memory ran out on another process of the launch; what was under way is done "
                f"again, with {tokens:,} tokens a pass and {rows:,} rows side by side."
            )
            results.append(work())

    def work(self) -> Call:
        """Do as rank 0 says until it says something that is not an engine's; returns that."""
        while True:
            call: Call = self.ranks.broadcast()
            if call.verb in (BUILD, END):
                return call
            self.budget.tokens, self.budget.rows, self.budget.longest = call.budget
            getattr(self, call.verb)(*call.arguments, **call.options)

    @abstractmethod
    def as_reference(self) -> AbstractContextManager[None]:
        """Within, the model is the reference policy."""

    @abstractmethod
    def trained_weights(self) -> dict[str, Any]:
        """The weights that a run changes, each stored array once."""

    def sum_gradient(self) -> None:
        """Give the optimiser the sum of every rank's gradient, the same bits on each."""
        raise NotImplementedError

    @abstractmethod
    def take(self, weights: dict[str, Any], state: dict[str, Any]) -> None:
        """Take back the `trained_weights` and the optimiser's state that rank 0 brings. All ranks
        have to be here."""


BUILD, END = "build", "end"
Build = Callable[..., Any]
"""Builds an engine of this process: (communicator, model, settings, optimizer, adapters)."""


def lead(ranks: Any, build: Build, *arguments: Any) -> Any:
    """Build rank 0's engine, and have the others build theirs."""
    with ranks.together():
        ranks.broadcast(Call(BUILD, arguments, trusted=gate.state()))
    return build(ranks, *arguments)


def work(ranks: Any, build: Build) -> None:
    """Hold the engines that rank 0 builds, one after the other: what every other rank does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; rank 0 finishes its step
    call: Call = ranks.broadcast()
    while call.verb == BUILD:
        gate.adopt(call.trusted)
        call = build(ranks, *call.arguments).work()  # bound to no name: one model at a time


def shut_down(ranks: Any) -> None:
    """End the other ranks. If the launch is broken, its exit code ends them."""
    if not ranks.broken:
        with contextlib.suppress(RunFailedError):
            ranks.broadcast(Call(END))

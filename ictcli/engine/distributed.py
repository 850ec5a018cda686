"""Data parallelism: several processes, on one machine or many, that work on one run.

A launcher starts the same command everywhere. Rank 0 alone runs the command, and its engine
broadcasts each verb to the others, which hold a model and nothing else: no recipe, no data, no run
folder. Prompts are split by rank and so are the rows of an update, whose gradients are summed;
since weights are normalised over the whole batch before, the sum is the whole batch's gradient, and
every rank takes the same step from it. Every rank works within rank 0's budget, and where memory
runs out on one while it samples, all sample again with what it has left.
"""

import contextlib
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

import numpy as np

from ictcli.algorithm.objective import TARGET, Objective, Term
from ictcli.engine.communicator import Communicator, Message
from ictcli.engine.core import EngineCore
from ictcli.engine.sampling import join
from ictcli.engine.update import Update
from ictcli.errors import RunFailedError
from ictcli.recipe.tables import AdapterSettings, EngineSettings, OptimizerSettings
from ictcli.seeds import uniforms
from ictcli.types import IntArray, OnTokens, Rollouts, Sampling, UpdateReport

T = TypeVar("T")

SUMMED = ("loss", "clipped", "kl", "count", "passed")
"""Figures of `UpdateStats` that are sums over the rows of an update."""


class DataParallel(EngineCore):
    """An engine of one rank. On rank 0 its verbs are called; the others `work`. It stands in front
    of a backend's own engine among the bases of a class."""

    processes: Any
    """A `Communicator`, of the backend's own kind."""

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "processes": self.processes.size}

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        group: int,
        sampling: Sampling,
        seed: int,
        wanted: Sequence[str] = (),
        on_tokens: OnTokens | None = None,
    ) -> Rollouts:
        arguments: dict[str, Any] = {
            "prompts": [[int(i) for i in prompt] for prompt in prompts],
            "group": group,
            "sampling": asdict(sampling),
            "seed": str(seed),
            "wanted": list(wanted),
        }
        with self.processes.together():
            self.tell("generate", arguments | self.budgeted())
            return self._generate(**arguments)

    def _generate(
        self,
        prompts: list[list[int]],
        group: int,
        sampling: dict[str, Any],
        seed: str,
        wanted: list[str],
    ) -> Rollouts:
        how = Sampling(**sampling)
        how = replace(how, stop_ids=tuple(how.stop_ids))
        numbers = uniforms(int(seed), len(prompts) * group, how.max_tokens)
        edges = np.linspace(0, len(prompts), self.processes.size + 1).round().astype(int)
        first, last = int(edges[self.processes.rank]), int(edges[self.processes.rank + 1])
        rows = slice(first * group, last * group)

        def work() -> Rollouts | None:
            if last == first:
                return None
            return self.sample(prompts[first:last], group, how, numbers[rows], wanted)

        own = self.agreed(work)
        message: Message = ("rollouts", *plain(own)) if own else ("none", {}, {})
        parts = [
            rollouts_of(*rest) for verb, *rest in self.processes.gather(message) if verb != "none"
        ]
        return join(parts, range(len(prompts)))

    def keep_reference(self) -> None:
        self.tell("keep_reference")
        super().keep_reference()

    def update(self, update: Update, lr: float) -> UpdateReport:
        if self.processes.rank == 0:
            about, arrays = plain(replace(update.rollouts, stats={}))
            how = {"objective": asdict(update.objective), "lr": lr, "terms": list(update.terms)}
            given = {"weights": update.weights, "advantage": update.advantage}
            given |= {} if update.old_logp is None else {"old_logp": update.old_logp}
            for name, term in update.terms.items():
                given[name] = term.coefficient
                given |= {} if term.target is None else {name + TARGET: term.target}
            with self.processes.together():
                self.tell("update", about | how | self.budgeted(), arrays | given)
        with self.processes.together():
            return super().update(update, lr)

    def _update(self, arguments: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        update = Update(
            rollouts_of(arguments, {n: a for n, a in arrays.items() if n in (*FIELDS, SAMPLER)}),
            arrays["weights"],
            arrays["advantage"],
            Objective(**arguments["objective"]),
            arrays.get("old_logp"),
            {n: Term(arrays[n], arrays.get(n + TARGET)) for n in arguments["terms"]},
        )
        self.update(update, arguments["lr"])

    def share_of(self, update: Update) -> Update:
        """This rank's rows of an update: as many tokens a rank, and neighbours together, which
        share their prompt."""
        tokens = np.where(update.trained.any(axis=1), update.rollouts.lengths, 0)
        rows = self.rank_of(tokens) == self.processes.rank
        return replace(update, weights=np.where(rows[:, None], update.weights, 0))

    def rank_of(self, tokens: IntArray) -> IntArray:
        """(B,) the rank of each row of so many tokens."""
        middle = (np.cumsum(tokens) - tokens / 2) / max(int(tokens.sum()), 1)
        return np.minimum(middle * self.processes.size, self.processes.size - 1).astype(int)

    def tell(
        self,
        verb: str,
        arguments: dict[str, Any] | None = None,
        arrays: dict[str, np.ndarray] | None = None,
    ) -> None:
        """From rank 0, let the others do a verb too."""
        if self.processes.rank == 0:
            self.processes.broadcast((verb, arguments or {}, arrays or {}))

    def budgeted(self) -> dict[str, Any]:
        """What a verb brings with it: rank 0's budget, which a recipe, a checkpoint or work of its
        own may have changed."""
        return {"budget": [self.budget.tokens, self.budget.rows]}

    def agreed(self, work: Callable[[], T]) -> T:
        """What `work` gives on this rank, done within the same budget on all: it is called again
        where another rank had to shrink its own. Every rank has to be here."""
        results = [work()]
        while True:
            message: Message = ("budget", self.budgeted(), {})
            budgets = [arguments["budget"] for _, arguments, _ in self.processes.gather(message)]
            if all(budget == budgets[0] for budget in budgets):
                return results[0]
            tokens, rows = map(min, zip(*budgets, strict=True))
            if not self.budget.lower(tokens, rows):
                continue  # done with the least already
            results.clear()
            self.budget.say(
                "Memory ran out on another process of the launch; what was under way is done "
                f"again, with {tokens:,} tokens a pass and {rows:,} rows side by side."
            )
            results.append(work())

    def work(self) -> Message:
        """Do as rank 0 says until it says something that is not an engine's; gives that."""
        while True:
            message = self.processes.broadcast(None)
            verb, arguments, arrays = message
            if "budget" in arguments:
                self.budget.tokens, self.budget.rows = arguments.pop("budget")
            if not self.obey(verb, arguments, arrays):
                return message

    def obey(self, verb: str, arguments: dict[str, Any], arrays: dict[str, np.ndarray]) -> bool:
        """Do rank 0's verb; False where it is not an engine's."""
        if verb == "generate":
            self._generate(**arguments)
        elif verb == "update":
            self._update(arguments, arrays)
        elif verb == "keep_reference":
            self.keep_reference()
        else:
            return False
        return True


FIELDS, SAMPLER = ("tokens", "lengths", "finished", "logp"), "sampler_logp"


def plain(rollouts: Rollouts) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Rollouts as a message carries them."""
    prompts = [list(map(int, prompt)) for prompt in rollouts.prompts]
    arrays = {name: getattr(rollouts, name) for name in FIELDS} | dict(rollouts.stats)
    if rollouts.sampler_logp is not None:
        arrays[SAMPLER] = rollouts.sampler_logp
    return {"prompts": prompts, "group": rollouts.group}, arrays


def rollouts_of(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Rollouts:
    """The rollouts that a message carries."""
    return Rollouts(
        prompts=tuple(tuple(prompt) for prompt in about["prompts"]),
        group=about["group"],
        stats={name: values for name, values in arrays.items() if name not in (*FIELDS, SAMPLER)},
        sampler_logp=arrays.get(SAMPLER),
        **{name: arrays[name] for name in FIELDS},
    )


Make = Callable[
    [str, EngineSettings, OptimizerSettings | None, AdapterSettings | None], DataParallel
]
"""Builds an engine of this process."""


def lead(
    processes: Communicator,
    make: Make,
    model: str,
    settings: EngineSettings,
    optimizer: OptimizerSettings | None,
    adapter: AdapterSettings | None,
) -> Any:
    """Rank 0's engine; the others build theirs."""
    parts = {"settings": settings, "optimizer": optimizer, "adapter": adapter}
    arguments = {name: part and part.model_dump(mode="json") for name, part in parts.items()}
    with processes.together():
        processes.broadcast(("build", {"model": model, **arguments}, {}))
    return make(model, settings, optimizer, adapter)


def work(processes: Communicator, make: Make) -> None:
    """What every rank but 0 does: hold the engines that rank 0 builds, one after the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; rank 0 finishes its step
    message = processes.broadcast(None)
    while message[0] == "build":
        message = _built(make, message[1]).work()  # bound to no name: one model at a time


def _built(make: Make, arguments: dict[str, Any]) -> DataParallel:
    return make(
        arguments["model"],
        EngineSettings.model_validate(arguments["settings"]),
        arguments["optimizer"] and OptimizerSettings.model_validate(arguments["optimizer"]),
        arguments["adapter"] and AdapterSettings.model_validate(arguments["adapter"]),
    )


def shut_down(processes: Communicator) -> None:
    """End the other ranks. If the launch is broken, its exit code ends them."""
    if not processes.broken:
        with contextlib.suppress(RunFailedError):
            processes.broadcast(("end", {}, {}))

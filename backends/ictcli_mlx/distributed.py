"""Data parallelism: several processes, on one Mac or many, that work on one run.

`mlx.launch` starts the same command everywhere. Rank 0 alone runs the command, and its
engine broadcasts each verb to the others, which hold a model and nothing else: no recipe, no data,
no run folder. Prompts are split by rank and so are the rows of an update, whose gradients are
summed; since weights are normalised over the whole batch before, the sum is the whole batch's
gradient, and every rank takes the same step from it. Every rank works within rank 0's budget, and
where memory runs out on one, all do that work again with what it has left.
"""

import contextlib
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map

from ictcli.algorithm.objective import Objective
from ictcli.engine.sampling import join
from ictcli.engine.update import Update, UpdateStats
from ictcli.errors import RunFailedError
from ictcli.recipe.tables import AdapterSettings, EngineSettings, OptimizerSettings
from ictcli.seeds import uniforms
from ictcli.types import FloatArray, OnTokens, Rollouts, Sampling, UpdateReport

from .communicator import Communicator, Message
from .engine import MlxEngine

T = TypeVar("T")


class DataParallelEngine(MlxEngine):
    """An engine of one rank. On rank 0 its verbs are called; the others `work`."""

    def __init__(self, processes: Communicator, *arguments: Any) -> None:
        self.processes = processes
        with processes.together():
            super().__init__(*arguments)
            self._align()

    def _align(self) -> None:
        """Every rank takes rank 0's weights and moments, to the bit."""
        if self.optimizer is None:
            return
        # sorted: arrays are exchanged one by one, and a file's order is not a model's
        trees = [dict(sorted(x.items())) for x in (self.trained_weights(), self.optimizer.state())]
        self.load(*self.processes.spread(trees))

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
        arguments = {
            "prompts": [[int(i) for i in prompt] for prompt in prompts],
            "group": group,
            "sampling": asdict(sampling),
            "seed": str(seed),
            "wanted": list(wanted),
        }
        with self.processes.together():
            self.processes.broadcast(("generate", arguments | self._budgeted(), {}))
            return self._generate(**arguments)

    def _generate(
        self,
        prompts: list[list[int]],
        group: int,
        sampling: dict[str, Any],
        seed: str,
        wanted: list[str],
    ) -> Rollouts:
        how = Sampling(**{**sampling, "stop_ids": tuple(sampling["stop_ids"])})
        numbers = uniforms(int(seed), len(prompts) * group, how.max_tokens)
        edges = np.linspace(0, len(prompts), self.processes.size + 1).round().astype(int)
        first, last = int(edges[self.processes.rank]), int(edges[self.processes.rank + 1])
        rows = slice(first * group, last * group)

        def work() -> Rollouts | None:
            if last == first:
                return None
            return self.sample(prompts[first:last], group, how, numbers[rows], wanted)

        own = self._agreed(work)
        message = ("rollouts", *_plain(own)) if own else ("none", {}, {})
        parts = [
            _rollouts(*rest) for verb, *rest in self.processes.gather(message) if verb != "none"
        ]
        return join(parts, range(len(prompts)))

    def keep_reference(self) -> None:
        if self.processes.rank == 0:
            self.processes.broadcast(("keep_reference", {}, {}))
        super().keep_reference()

    def update(
        self,
        rollouts: Rollouts,
        weights: FloatArray,
        advantage: FloatArray,
        objective: Objective,
        lr: float,
        old_logp: FloatArray | None = None,
        kl_old: FloatArray | None = None,
    ) -> UpdateReport:
        if self.processes.rank == 0:
            about, arrays = _plain(replace(rollouts, stats={}))
            arguments = about | {"objective": asdict(objective), "lr": lr}
            arrays |= {"weights": weights, "advantage": advantage}
            arrays |= {} if old_logp is None else {"old_logp": old_logp}
            arrays |= {} if kl_old is None else {"kl_old": kl_old}
            with self.processes.together():
                self.processes.broadcast(("update", arguments | self._budgeted(), arrays))
        with self.processes.together():
            return super().update(rollouts, weights, advantage, objective, lr, old_logp, kl_old)

    def _update(self, arguments: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.update(
            _rollouts(arguments, {name: arrays[name] for name in FIELDS}),
            arrays["weights"],
            arrays["advantage"],
            Objective(**arguments["objective"]),
            arguments["lr"],
            arrays.get("old_logp"),
            arrays.get("kl_old"),
        )

    def gradient(self, update: Update) -> UpdateStats:
        """The whole batch's gradient and figures: each rank passes over its rows."""
        tokens = np.where(update.trained.any(axis=1), update.rollouts.lengths, 0)
        # as many tokens a rank, and neighbours together: they share their prompt
        middle = (np.cumsum(tokens) - tokens / 2) / max(tokens.sum(), 1)
        rank_of = np.minimum(middle * self.processes.size, self.processes.size - 1).astype(int)
        rows = rank_of == self.processes.rank
        share = replace(update, weights=np.where(rows[:, None], update.weights, 0))
        gradient_of = super().gradient
        stats = self._agreed(lambda: gradient_of(share))
        gradient = self.optimizer.gradient
        if gradient is None:
            gradient = tree_map(lambda w: mx.zeros(w.shape), self.model.trainable_parameters())
        figures = {name: mx.array(getattr(stats, name)) for name in SUMMED}
        gradient, figures, logp = self.processes.sum([gradient, figures, mx.array(stats.logp)])
        stats = replace(
            UpdateStats(np.array(logp), gap=self.processes.max(stats.gap)),
            **{name: value.item() for name, value in figures.items()},
        )
        self.optimizer.gradient = gradient if stats.count else None
        return stats

    def _budgeted(self) -> dict[str, Any]:
        """What a verb brings with it: rank 0's budget, which a recipe, a checkpoint or work of its
        own may have changed."""
        return {"budget": [self.budget.tokens, self.budget.rows]}

    def _agreed(self, work: Callable[[], T]) -> T:
        """What `work` gives on this rank, done within the same budget on all: it is called again
        where another rank had to shrink its own. Every rank has to be here."""
        results = [work()]
        while True:
            message = ("budget", self._budgeted(), {})
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

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        with self.processes.together():
            self.processes.broadcast(("align", {}, {}))
            self._align()

    def work(self) -> Message:
        """Do as rank 0 says until it says something that is not an engine's; gives that."""
        while True:
            verb, arguments, arrays = self.processes.broadcast(None)
            if "budget" in arguments:
                self.budget.tokens, self.budget.rows = arguments.pop("budget")
            if verb == "generate":
                self._generate(**arguments)
            elif verb == "update":
                self._update(arguments, arrays)
            elif verb == "keep_reference":
                self.keep_reference()
            elif verb == "align":
                self._align()
            else:
                return verb, arguments, arrays


FIELDS = ("tokens", "lengths", "finished", "logp")
SUMMED = ("loss", "clipped", "kl", "count", "passed")


def _plain(rollouts: Rollouts) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Rollouts as a message carries them."""
    prompts = [list(map(int, prompt)) for prompt in rollouts.prompts]
    arrays = {name: getattr(rollouts, name) for name in FIELDS} | dict(rollouts.stats)
    return {"prompts": prompts, "group": rollouts.group}, arrays


def _rollouts(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Rollouts:
    return Rollouts(
        prompts=tuple(tuple(prompt) for prompt in about["prompts"]),
        group=about["group"],
        stats={name: values for name, values in arrays.items() if name not in FIELDS},
        **{name: arrays[name] for name in FIELDS},
    )


_communicator: list[Communicator] = []


def communicator() -> Communicator:
    """This launch's, one for all the engines it builds."""
    if not _communicator:
        _communicator.append(Communicator())
    return _communicator[0]


def lead(
    model: str,
    settings: EngineSettings,
    optimizer: OptimizerSettings | None,
    adapter: AdapterSettings | None,
) -> DataParallelEngine:
    """Rank 0's engine; the others build theirs."""
    parts = {"settings": settings, "optimizer": optimizer, "adapter": adapter}
    arguments = {name: part and part.model_dump(mode="json") for name, part in parts.items()}
    with communicator().together():
        communicator().broadcast(("build", {"model": model, **arguments}, {}))
    return DataParallelEngine(communicator(), model, settings, optimizer, adapter)


def work() -> None:
    """What every rank but 0 does: hold the engines that rank 0 builds, one after the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; rank 0 finishes its step
    message = communicator().broadcast(None)
    while message[0] == "build":
        message = _built(message[1]).work()  # bound to no name: one model at a time


def _built(arguments: dict[str, Any]) -> DataParallelEngine:
    return DataParallelEngine(
        communicator(),
        arguments["model"],
        EngineSettings.model_validate(arguments["settings"]),
        arguments["optimizer"] and OptimizerSettings.model_validate(arguments["optimizer"]),
        arguments["adapter"] and AdapterSettings.model_validate(arguments["adapter"]),
    )


def shut_down() -> None:
    """End the other ranks. If the launch is broken, its exit code ends them."""
    if _communicator and not _communicator[0].broken:
        with contextlib.suppress(RunFailedError):
            _communicator[0].broadcast(("end", {}, {}))

"""Data parallelism: several processes, on one Mac or many, that work on one run.

`mlx.launch` starts the same command everywhere. Rank 0 leads: it alone runs the command, and its
engine announces each verb to the others, which hold a model and nothing else: no recipe, no data,
no run folder. Prompts are split by rank and so are the rows of an update, whose gradients are
summed; since weights are normalised over the whole batch before, the sum is the whole batch's
gradient, and every rank takes the same step from it. Every rank works within rank 0's budget, and
where memory runs out on one, all do that work again with what it has left.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map, tree_unflatten

from ictcli.algorithm.objective import Objective
from ictcli.engine.passes import Update, UpdateStats
from ictcli.engine.sampling import join
from ictcli.errors import RunFailedError
from ictcli.recipe.settings import AdapterSettings, EngineSettings, OptimizerSettings
from ictcli.seeds import uniforms
from ictcli.types import FloatArray, Rollouts, Sampling, UpdateReport

from .crew import Crew, Message
from .engine import MlxEngine

T = TypeVar("T")


class CrewEngine(MlxEngine):
    """An engine of one rank. On rank 0 its verbs are called; the others `follow`."""

    def __init__(self, crew: Crew, *given: Any) -> None:
        self.crew = crew
        with crew.together():
            super().__init__(*given)
            self._align()

    def _align(self) -> None:
        """Every rank takes rank 0's weights and moments, to the bit."""
        if self.optimizer is None:
            return
        # sorted: arrays are exchanged one by one, and a file's order is not a model's
        trees = [dict(sorted(x.items())) for x in (self._own(), self.optimizer.state())]
        own, state = self.crew.spread(trees)
        self.model.update(tree_unflatten(list(own.items())))
        self.optimizer.load(state)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "processes": self.crew.size}

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        group: int,
        sampling: Sampling,
        seed: int,
        wanted: Sequence[str] = (),
    ) -> Rollouts:
        given = {
            "prompts": [[int(i) for i in prompt] for prompt in prompts],
            "group": group,
            "sampling": asdict(sampling),
            "seed": str(seed),
            "wanted": list(wanted),
        }
        with self.crew.together():
            self.crew.announce(("generate", given | self._budgeted(), {}))
            return self._generate(**given)

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
        edges = np.linspace(0, len(prompts), self.crew.size + 1).round().astype(int)
        first, last = int(edges[self.crew.rank]), int(edges[self.crew.rank + 1])
        rows = slice(first * group, last * group)

        def work() -> Rollouts | None:
            if last == first:
                return None
            return self.sample(prompts[first:last], group, how, numbers[rows], wanted)

        own = self._agreed(work)
        message = ("rollouts", *_plain(own)) if own else ("none", {}, {})
        parts = [_rollouts(*rest) for verb, *rest in self.crew.gather(message) if verb != "none"]
        return join(parts, range(len(prompts)))

    def keep_reference(self) -> None:
        if self.crew.rank == 0:
            self.crew.announce(("keep_reference", {}, {}))
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
        if self.crew.rank == 0:
            about, arrays = _plain(replace(rollouts, stats={}))
            given = about | {"objective": asdict(objective), "lr": lr}
            arrays |= {"weights": weights, "advantage": advantage}
            arrays |= {} if old_logp is None else {"old_logp": old_logp}
            arrays |= {} if kl_old is None else {"kl_old": kl_old}
            with self.crew.together():
                self.crew.announce(("update", given | self._budgeted(), arrays))
        with self.crew.together():
            return super().update(rollouts, weights, advantage, objective, lr, old_logp, kl_old)

    def _update(self, given: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.update(
            _rollouts(given, {name: arrays[name] for name in FIELDS}),
            arrays["weights"],
            arrays["advantage"],
            Objective(**given["objective"]),
            given["lr"],
            arrays.get("old_logp"),
            arrays.get("kl_old"),
        )

    def _gradient(self, batch: Update) -> tuple[Any, UpdateStats]:
        """The whole batch's gradient and figures: each rank passes over its rows."""
        order = np.argsort(-batch.rollouts.lengths, kind="stable")  # every rank gets as many tokens
        mine = np.isin(np.arange(len(order)), order[self.crew.rank :: self.crew.size])
        part = replace(batch, weights=np.where(mine[:, None], batch.weights, 0))
        own = super()._gradient
        gradient, stats = self._agreed(lambda: own(part))
        if gradient is None:
            gradient = tree_map(lambda w: mx.zeros(w.shape), self.model.trainable_parameters())
        figures = {name: mx.array(getattr(stats, name)) for name in SUMMED}
        gradient, figures, logp = self.crew.sum([gradient, figures, mx.array(stats.logp)])
        stats = replace(
            UpdateStats(np.array(logp), gap=self.crew.max(stats.gap)),
            **{name: value.item() for name, value in figures.items()},
        )
        return (gradient if stats.count else None), stats

    def _budgeted(self) -> dict[str, Any]:
        """What a verb brings with it: rank 0's budget, which a recipe, a checkpoint or work of its
        own may have changed."""
        return {"budget": [self.budget.tokens, self.budget.rows]}

    def _agreed(self, work: Callable[[], T]) -> T:
        """What `work` gives on this rank, done within the same budget on all: it is called again
        where another rank had to shrink its own. Every rank has to be here."""
        found = [work()]
        while True:
            message = ("budget", self._budgeted(), {})
            budgets = [given["budget"] for _, given, _ in self.crew.gather(message)]
            if all(budget == budgets[0] for budget in budgets):
                return found[0]
            tokens, rows = map(min, zip(*budgets, strict=True))
            if not self.budget.lower(tokens, rows):
                continue  # done with the least already
            found.clear()
            self.budget.say(
                "Memory ran out on another process of the launch; what was under way is done "
                f"again, with {tokens:,} tokens a pass and {rows:,} rows side by side."
            )
            found.append(work())

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        with self.crew.together():
            self.crew.announce(("align", {}, {}))
            self._align()

    def follow(self) -> Message:
        """Do as rank 0 says until it says something that is not an engine's; gives that."""
        while True:
            verb, given, arrays = self.crew.announce(None)
            if "budget" in given:
                self.budget.tokens, self.budget.rows = given.pop("budget")
            if verb == "generate":
                self._generate(**given)
            elif verb == "update":
                self._update(given, arrays)
            elif verb == "keep_reference":
                self.keep_reference()
            elif verb == "align":
                self._align()
            else:
                return verb, given, arrays


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


_crew: list[Crew] = []


def crew() -> Crew:
    """This launch's, one for all the engines it builds."""
    if not _crew:
        _crew.append(Crew())
    return _crew[0]


def lead(
    model: str,
    settings: EngineSettings,
    optimizer: OptimizerSettings | None,
    adapter: AdapterSettings | None,
) -> CrewEngine:
    """Rank 0's engine; the others build theirs."""
    parts = {"settings": settings, "optimizer": optimizer, "adapter": adapter}
    given = {name: part and part.model_dump(mode="json") for name, part in parts.items()}
    with crew().together():
        crew().announce(("build", {"model": model, **given}, {}))
    return CrewEngine(crew(), model, settings, optimizer, adapter)


def follow() -> None:
    """What every rank but 0 does: hold the engines that rank 0 builds, one after the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; rank 0 finishes its step
    message = crew().announce(None)
    while message[0] == "build":
        message = _built(message[1]).follow()  # bound to no name: one model at a time


def _built(given: dict[str, Any]) -> CrewEngine:
    return CrewEngine(
        crew(),
        given["model"],
        EngineSettings.model_validate(given["settings"]),
        given["optimizer"] and OptimizerSettings.model_validate(given["optimizer"]),
        given["adapter"] and AdapterSettings.model_validate(given["adapter"]),
    )


def dismiss() -> None:
    """Rank 0's last word: the others end. If the launch is broken, its exit code says so."""
    if _crew and not _crew[0].broken:
        with contextlib.suppress(RunFailedError):
            _crew[0].announce(("end", {}, {}))

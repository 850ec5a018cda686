"""What every engine does alike; a backend adds what its device does in one pass."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ictcli.algorithm.objective import SEQUENCE, token_logp
from ictcli.algorithm.quantities import statistic
from ictcli.engine.adapters import stored_base
from ictcli.engine.budget import Budget
from ictcli.engine.checksums import weights_fingerprint
from ictcli.engine.models import locate, snapshot
from ictcli.engine.packing import MicroBatch
from ictcli.engine.protocol import Engine
from ictcli.engine.sampling import in_passes
from ictcli.engine.score import compare
from ictcli.engine.update import Update, UpdateStats
from ictcli.errors import UserError
from ictcli.recipe.tables import AdapterSettings, EngineSettings, OptimizerSettings
from ictcli.seeds import uniforms
from ictcli.types import (
    LOGP,
    BoolArray,
    FloatArray,
    IntArray,
    OnTokens,
    Rollouts,
    Sampling,
    UpdateReport,
)

WEIGHTS, OPTIMIZER = "weights.safetensors", "optimizer.safetensors"


class EngineCore(Engine, ABC):
    """The verbs of `ictcli.engine.Engine` that need no device.

    A backend's `__init__` sets `model`, `tokenizer`, `lengths`, `vocabulary`, `stop_ids`,
    `lockstep`, `passes` and, to train, `optimizer`.
    """

    model: Any
    vocabulary: int
    """V, the width of the logits."""
    optimizer: Any = None
    """Has `kinds`, `clip`, `step`, `drop_gradient`, `reset` and `state`."""
    lockstep: Callable[..., Rollouts]
    """Decode all rows of some prompts side by side: (prompts, group, sampling, the numbers (B, T)
    that decide every draw, wanted statistics, `OnTokens` of its own rows or None)."""
    passes: Any
    """Passes over a micro-batch: `evaluate` gives any function of the logits at the wanted places,
    over the array namespace `xp`; `backward` adds a gradient to the optimiser's."""
    reference: Any = None
    """What `keep_reference` kept."""
    adapted: Any = None
    """What the backend's adapter library knows of the model's adapters; None without any."""
    base: str = ""
    """The fingerprint of the weights below the adapters."""
    mixes_lengths = True
    """Whether prompts of several lengths may be decoded side by side."""

    write_arrays: Any
    """Write (path, arrays by name, **header) as safetensors; equal arrays make equal bytes."""
    read_arrays: Any
    """Read (path), or open what is read when it is loaded; raises SafetensorError where the file is
    cut short."""

    def __init__(
        self,
        model: str,
        settings: EngineSettings,
        optimizer: OptimizerSettings | None,
        memory: Any,
        ran_out: Callable[[Exception], bool],
    ) -> None:
        self.settings, self.memory = settings, memory
        self.budget = Budget(settings, ran_out, memory.free)
        self.source = locate(model, trains=optimizer is not None)

    @property
    def context(self) -> int:
        return self.lengths.context

    def adapt(self, settings: AdapterSettings | None) -> None:
        """Put on the adapters of the model's folder or, with `settings`, new ones to train."""
        if self.source.adapter is None and settings is None:
            return
        folder = snapshot(self.source.path)
        self.base = weights_fingerprint(folder) if folder else ""
        if self.source.adapter is not None:
            self.adapted = self.adapters().read(self.model, self.source.adapter, self.base)
        else:
            self.adapted = self.adapters().put_on(self.model, settings, self.source.path)

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        group: int,
        sampling: Sampling,
        seed: int,
        wanted: Sequence[str] = (),
        on_tokens: OnTokens | None = None,
    ) -> Rollouts:
        numbers = uniforms(seed, len(prompts) * group, sampling.max_tokens)
        return self.sample(prompts, group, sampling, numbers, wanted, on_tokens)

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        group: int,
        sampling: Sampling,
        numbers: FloatArray,
        wanted: Sequence[str],
        on_tokens: OnTokens | None = None,
    ) -> Rollouts:
        """`generate` with the numbers (B, T) that decide its draws."""

        def decode(some: Sequence[Sequence[int]], part: FloatArray, places: IntArray) -> Rollouts:
            def hear(t: int, rows: IntArray, tokens: IntArray) -> None:
                assert on_tokens is not None
                on_tokens(t, places[rows], tokens)

            return self.lockstep(some, group, sampling, part, wanted, on_tokens and hear)

        def work() -> Rollouts:
            tokens = 0 if on_tokens else sampling.max_tokens
            with self.for_sampling(tokens, rounded=sampling.sampler == "int8"):
                return in_passes(
                    prompts, group, self.budget.rows, numbers, decode, mixed=self.mixes_lengths
                )

        with self._phase():
            return self.budget.decoding(group, len(numbers), work)

    def score(
        self,
        rollouts: Rollouts,
        wanted: Sequence[str],
        temperature: float = 1.0,
        *,
        reference: bool = False,
        solution: IntArray | None = None,
    ) -> dict[str, FloatArray]:
        stats = {name: statistic(name) for name in wanted if name != LOGP}
        compared = [name for name, each in stats.items() if each.compares]
        alone = [name for name in wanted if name not in compared]
        xp = self.passes.xp

        def measure(logits: Any, tokens: Any) -> Any:
            values = [
                token_logp(xp, logits, tokens, temperature)
                if name == LOGP
                else stats[name].at(xp, xp.softmax(logits, axis=-1), tokens)
                for name in alone
            ]
            return xp.stack(values).T

        def work() -> FloatArray:
            values = np.zeros((*rollouts.tokens.shape, len(alone)), dtype=np.float32)
            for batch in self._micro_batches(rollouts, rollouts.valid):
                values[batch.rows, batch.positions] = self.passes.evaluate(batch, measure)
            return values

        with self.as_reference() if reference else contextlib.nullcontext():
            values = self.budget.passing(work) if alone else np.zeros(0)
            found = {name: values[..., n] for n, name in enumerate(alone)}
            return found | compare(self.logits, self.vocabulary, rollouts, compared, solution)

    def logits(self, rollouts: Rollouts, where: BoolArray) -> FloatArray:
        order = np.cumsum(where).reshape(where.shape) - 1

        def themselves(logits: Any, tokens: Any) -> Any:
            return logits

        def work() -> FloatArray:
            values = np.zeros((int(where.sum()), self.vocabulary), dtype=np.float32)
            for batch in self._micro_batches(rollouts, where):
                found = self.passes.evaluate(batch, themselves)
                values[order[batch.rows, batch.positions]] = found
            return values

        return self.budget.passing(work)

    def update(self, update: Update, lr: float) -> UpdateReport:
        assert self.optimizer is not None, "an engine built without optimizer settings cannot step"
        assert update.objective.kl == 0 or self.reference is not None, "kl > 0 needs keep_reference"
        with self._phase():
            report = self.gradient(update).report(self.optimizer.clip())
            if report.stepped:
                self.optimizer.step(lr)
            self.optimizer.drop_gradient()
        return report

    def logp(self, batch: MicroBatch, temperature: float) -> FloatArray:
        """(N,) log-probabilities of the wanted tokens of a pass."""
        of = partial(token_logp, self.passes.xp, temperature=temperature)
        return self.passes.evaluate(batch, of)

    def gradient(self, update: Update) -> UpdateStats:
        """Leave the gradient of the whole batch with the optimiser; its figures."""
        objective = update.objective

        def work() -> UpdateStats:
            self.optimizer.drop_gradient()  # of a pass that was broken off
            stats = UpdateStats(np.zeros(update.rollouts.tokens.shape, dtype=np.float32))
            for batch in self._micro_batches(update.rollouts, update.trained):
                terms = update.tokenwise(batch)
                if update.compares_sequences:
                    moved = self.logp(batch, objective.temperature) - terms["old_logp"]
                    terms[SEQUENCE] = batch.row_means(moved)
                if objective.kl > 0:  # before the policy's logits: both would be held at once
                    with self.as_reference():
                        terms["reference"] = self.logp(batch, objective.temperature)
                stats.add(batch, terms, objective, self.passes.backward(batch, terms, update))
            return stats

        return self.budget.passing(work)

    def reset_optimizer(self) -> None:
        self.optimizer.reset()

    def save(self, folder: Path) -> None:
        about = {"base": self.base} if self.base else {}  # one entry: their order is not fixed
        self.write_arrays(folder / WEIGHTS, self.trained_weights(), **about)
        self.write_arrays(folder / OPTIMIZER, self.optimizer.state())

    def restore(self, folder: Path) -> None:
        weights: dict[str, Any] = self.read_arrays(folder / WEIGHTS)
        state: dict[str, Any] = self.read_arrays(folder / OPTIMIZER)
        other = self.adapted and stored_base(folder / WEIGHTS) not in ("", self.base)
        if other or _shapes(weights) != _shapes(self.trained_weights()):
            raise UserError(
                f"{folder} holds the weights of another model.",
                "resume with the model it began with",
            )
        if foreign := {entry.split("/")[0] for entry in state} - {*self.optimizer.kinds}:
            raise UserError(
                f"The optimiser's state ({', '.join(sorted(foreign))}) is of another engine, or "
                "another optimizer.kind.",
                "resume with those the run began with",
            )
        self.load(weights, state)

    def peak_memory(self) -> int:
        return self.memory.peak()

    def _micro_batches(self, rollouts: Rollouts, wanted: BoolArray) -> Iterator[MicroBatch]:
        return self.budget.micro_batches(rollouts, wanted, share=self.passes.share)

    @contextlib.contextmanager
    def _phase(self) -> Generator[None]:
        """Around sampling or an update, which need memory in other sizes than each other."""
        try:
            yield
        finally:
            self.memory.end_phase()

    @abstractmethod
    def adapters(self) -> Any:
        """The backend's module with `put_on` and `read`."""

    @abstractmethod
    def for_sampling(self, tokens: int, *, rounded: bool) -> AbstractContextManager[Any]:
        """Within, the model decodes responses of so many tokens at most as fast as it can; 0 where
        somebody waits for the first. `rounded`: its weights are rounded to 8 bits."""

    @abstractmethod
    def as_reference(self) -> AbstractContextManager[None]:
        """Within, the model is the reference policy."""

    @abstractmethod
    def trained_weights(self) -> dict[str, Any]:
        """The weights that a run changes, each stored array once."""

    @abstractmethod
    def load(self, weights: dict[str, Any], state: dict[str, Any]) -> None:
        """Take back `trained_weights` and the optimiser's `state`."""


def _shapes(weights: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(array.shape) for name, array in weights.items()}

"""What every engine does alike; a backend adds what its device does in one pass."""

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ictcli.algorithm.quantities import statistic
from ictcli.engine.adapters import putting_on, stored_base
from ictcli.engine.budget import Budget
from ictcli.engine.checksums import weights_fingerprint
from ictcli.engine.distributed import DataParallel
from ictcli.engine.models import locate, snapshot
from ictcli.engine.protocol import Engine
from ictcli.engine.sampling import NotFiniteError, in_passes, join
from ictcli.engine.score import compare, measure
from ictcli.engine.update import Update, pass_over
from ictcli.errors import UserError
from ictcli.recipe.tables import EngineSettings, NewAdapters, OptimizerSettings
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


class EngineCore(DataParallel, Engine):
    """The verbs of `ictcli.engine.Engine` that need no device.

    A backend's `__init__` sets `model`, `tokenizer`, `context`, `vocabulary`, `stop_ids`,
    `lockstep`, `passes` and, to train, `optimizer`.
    """

    model: Any
    vocabulary: int
    """V, the width of the logits."""
    lockstep: Callable[..., Rollouts]
    """Decode all rows of some prompts side by side: (prompts, group, sampling, the numbers (B, T)
    that decide every draw, wanted statistics, `OnTokens` of its own rows or None)."""
    reference: Any = None
    """What `keep_reference` kept."""
    adapted: Any = None
    """What the backend's adapter library knows of the model's adapters; None without any."""

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

    def describe(self) -> dict[str, Any]:
        launch = {"processes": self.ranks.size, "parallelism": self.parallelism}
        return self.about() | (launch if self.ranks.size > 1 else {})

    def adapt(self, settings: NewAdapters | None) -> None:
        """Put on the adapters of the model's folder or, with `settings`, new ones to train."""
        if self.source.adapter is None and settings is None:
            return
        folder = snapshot(self.source.path)
        self.base = weights_fingerprint(folder) if folder else ""
        if self.source.adapter is not None:
            self.adapted = self.adapters().read(self.model, self.source.adapter, self.base)
        else:
            with putting_on(self.source.path):
                self.adapted = self.adapters().put_on(self.model, settings, self.source.path)

    def check_tokens(self, *rows: Sequence[int] | IntArray) -> None:
        highest = max((int(np.max(row)) for row in rows if len(row)), default=0)
        if highest >= self.vocabulary:
            raise UserError(
                f"The model has no row for token {highest}, {self.tokenizer.decode([highest])!r}: "
                f"it has {self.vocabulary:,} rows.",
                "resize_token_embeddings(len(tokenizer)) adds rows; or leave the token out of the "
                "chat template and the data",
            )

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        group: int,
        sampling: Sampling,
        seed: int,
        wanted: Sequence[str] = (),
        on_tokens: OnTokens | None = None,
    ) -> Rollouts:
        self.check_tokens(*prompts)
        later = [name for name in wanted if statistic(name).mean_over != "position"]
        first = [name for name in wanted if name not in later]
        rollouts = self.sample(prompts, group, sampling, seed, first, on_tokens=on_tokens)
        if later:
            stats = {**rollouts.stats, **self.score(rollouts, later)}
            rollouts = replace(rollouts, stats=stats)
        if not np.isfinite(rollouts.logp).all():
            raise NotFiniteError(rollouts)
        return rollouts

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        group: int,
        sampling: Sampling,
        seed: int,
        wanted: Sequence[str] = (),
        on_tokens: OnTokens | None = None,
    ) -> Rollouts:
        """Generate rollouts, which may not be finite."""
        numbers = uniforms(seed, len(prompts) * group, sampling.max_tokens)
        first, last = self.prompts_of(len(prompts))
        share, numbers = prompts[first:last], numbers[first * group : last * group]

        def decode(
            prompts: Sequence[Sequence[int]], numbers: FloatArray, places: IntArray
        ) -> Rollouts:
            def hear(t: int, rows: IntArray, tokens: IntArray) -> None:
                assert on_tokens is not None
                on_tokens(t, places[rows], tokens)

            return self.lockstep(prompts, group, sampling, numbers, wanted, on_tokens and hear)

        def in_budget() -> Rollouts:
            # one answer is shown as it grows, and is not kept waiting for weights to be arranged
            tokens = 0 if on_tokens and len(numbers) == 1 else sampling.max_tokens
            with self.for_sampling(tokens):
                return in_passes(share, group, self.budget.rows, numbers, decode)

        def work() -> Rollouts | None:
            return self.budget.decoding(group, len(numbers), in_budget) if share else None

        with self._phase(), self.gathered():
            parts = self.agreed(work)
        return join([part for part in parts if part is not None])

    def score(
        self,
        rollouts: Rollouts,
        wanted: Sequence[str],
        temperature: float = 1.0,
        *,
        reference: bool = False,
    ) -> dict[str, FloatArray]:
        self.check_tokens(*rollouts.prompts, rollouts.tokens.ravel())
        compared = [name for name in wanted if name != LOGP and statistic(name).kind == "group"]
        alone = [name for name in wanted if name not in compared]
        first, last = self.prompts_of(len(rollouts.prompts))
        prompt = np.arange(len(rollouts)) // rollouts.group
        mine = (first <= prompt) & (prompt < last)
        own = replace(rollouts, lengths=rollouts.lengths * mine)

        def work() -> dict[str, FloatArray]:
            values = self.budget.passing(lambda: measure(self, own, own.valid, alone, temperature))
            found = {name: values[..., n] for n, name in enumerate(alone)}
            found |= compare(self.logits, self.vocabulary, own, compared)
            return {name: values[mine] for name, values in found.items()}

        with self.policy(reference=reference):
            parts = self.agreed(work)
        return {name: np.concatenate([part[name] for part in parts]) for name in wanted}

    def keep_reference(self) -> None:
        self.reference = self.model if self.adapted is not None else self.kept_weights()

    def as_reference(self) -> AbstractContextManager[None]:
        assert self.reference is not None, "a reference needs keep_reference"
        if self.adapted is not None:
            return self.adapters().taken_off(self.model)
        return self.swapped(self.reference)

    def logits(self, rollouts: Rollouts, where: BoolArray) -> FloatArray:
        self.check_tokens(*rollouts.prompts, rollouts.tokens.ravel())
        order = np.cumsum(where).reshape(where.shape) - 1

        def themselves(logits: Any, tokens: Any) -> Any:
            return logits

        def work() -> FloatArray:
            values = np.zeros((int(where.sum()), self.vocabulary), dtype=np.float32)
            for batch in self.micro_batches(rollouts, where):
                found = self.passes.evaluate(batch, themselves)
                values[order[batch.rows, batch.positions]] = found
            return values

        return self.budget.passing(work)

    def update(self, update: Update, lr: float) -> UpdateReport:
        assert self.optimizer is not None, "an engine built without optimizer settings cannot step"
        assert update.objective.kl == 0 or self.reference is not None, "kl > 0 needs keep_reference"
        self.check_tokens(*update.rollouts.prompts, update.rollouts.tokens.ravel())
        with self._phase():
            report = self.gradient(update)
            report.grad_norm = self.optimizer.clip()
            if report.stepped:
                self.optimizer.step(lr)
            self.optimizer.drop_gradient()
        return report

    def gradient(self, update: Update) -> UpdateReport:
        """Leave the gradient of the whole batch with the optimiser; its figures. Each rank passes
        over its rows."""

        def work() -> UpdateReport:
            return self.budget.passing(lambda: pass_over(self, update))

        report = self.summed(self.agreed(work))
        if report.evaluated and self.ranks.size > 1:
            self.sum_gradient()
        return report

    def reset_optimizer(self) -> None:
        self.optimizer.reset()

    def save(self, folder: Path) -> None:
        about = {"base": self.base} if self.base else {}  # one entry: their order is not fixed
        self.write(folder / WEIGHTS, self.trained_weights(), **about)
        self.write(folder / OPTIMIZER, self.optimizer.state())

    def write(self, path: Path, arrays: dict[str, Any], **about: str) -> None:
        """Write arrays on rank 0."""
        if self.ranks.rank == 0:
            self.write_arrays(path, arrays, **about)

    def restore(self, folder: Path) -> None:
        weights: dict[str, Any] = self.read_arrays(folder / WEIGHTS)
        state: dict[str, Any] = {}
        if self.optimizer is not None:
            state = self.read_arrays(folder / OPTIMIZER)
        other = self.adapted and stored_base(folder / WEIGHTS) not in ("", self.base)
        if other or _shapes(weights) != _shapes(self.trained_weights()):
            raise UserError(
                f"{folder} holds the weights of another model.",
                "resume with the model it began with",
            )
        kinds = {entry.split("/")[0] for entry in state}
        if self.optimizer and (foreign := kinds - {*self.optimizer.kinds}):
            raise UserError(
                f"The optimiser's state ({', '.join(sorted(foreign))}) is by another engine.",
                "resume with those the run began with",
            )
        self.take(weights, state)

    def peak_memory(self) -> int:
        return self.memory.peak()

    @contextlib.contextmanager
    def _phase(self) -> Generator[None]:
        """Wrap sampling or an update, which need memory in blocks of different sizes."""
        try:
            yield
        finally:
            self.memory.end_phase()

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Describe this process alone."""

    @abstractmethod
    def adapters(self) -> Any:
        """Return the backend's module with `put_on`, `read` and `taken_off`."""

    @abstractmethod
    def take(self, weights: dict[str, Any], state: dict[str, Any]) -> None:
        """Take back `trained_weights` and the optimiser's state; other ranks `align` after it."""

    @abstractmethod
    def kept_weights(self) -> Any:
        """Return the trained weights as they are now, which no update changes."""

    @abstractmethod
    def swapped(self, weights: Any) -> AbstractContextManager[None]:
        """Have the model evaluate with these weights within (`kept_weights`)."""

    @abstractmethod
    def for_sampling(self, tokens: int) -> AbstractContextManager[Any]:
        """Have the model decode responses of so many tokens at most as fast as it can; 0 where
        somebody waits for the first."""


def _shapes(weights: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(array.shape) for name, array in weights.items()}

"""The part of an engine that all backends share; each backend adds the passes on its device."""

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
    """The methods of `ictcli.engine.Engine` that do not depend on the device.

    A backend's `__init__` sets `model`, `tokenizer`, `context`, `vocabulary`, `stop_ids`,
    `lockstep`, `passes` and, to train, `optimizer`."""

    model: Any
    vocabulary: int
    """V, the width of the logits."""
    lockstep: Callable[..., Rollouts]
    """Function that decodes all rows of some prompts at once. Arguments: prompts, group, sampling,
    uniform numbers (B, T) for the draws, wanted statistics, `OnTokens` for these rows or None."""
    reference: Any = None
    """The reference policy, as weights or a model, once `keep_reference` stored it; else None."""
    adapted: Any = None
    """The result of the backend's `adapters().put_on` or `read`; None if there are no adapters."""

    write_arrays: Any
    """Function (path, arrays by name, **header) that writes a reproducible safetensors file."""
    read_arrays: Any
    """Function (path) that returns the arrays of a safetensors file by name, which may be read from
    disk only when used. Raises SafetensorError if the file is cut short."""

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
        """Add the adapters in the model's folder to the model or, with `settings`, new adapters."""
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
                f"The model has no embedding for token {highest}, "
                f"{self.tokenizer.decode([highest])!r}: it has {self.vocabulary:,} embeddings.",
                "resize_token_embeddings(len(tokenizer)) adds rows; or remove the token from the "
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
        """Sample rollouts as `generate` does, but allow log-probabilities that are not finite."""
        numbers = uniforms(seed, len(prompts) * group, sampling.max_tokens)
        first, last = self.prompts_of(len(prompts))
        share, numbers = prompts[first:last], numbers[first * group : last * group]

        def decode(
            prompts: Sequence[Sequence[int]], numbers: FloatArray, places: IntArray
        ) -> Rollouts:
            def report(t: int, rows: IntArray, tokens: IntArray) -> None:
                assert on_tokens is not None
                on_tokens(t, places[rows], tokens)

            return self.lockstep(prompts, group, sampling, numbers, wanted, on_tokens and report)

        def in_budget() -> Rollouts:
            # rearranging weights for speed would delay the first token of a single shown answer
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
        here = (first <= prompt) & (prompt < last)
        local = replace(rollouts, lengths=rollouts.lengths * here)

        def passes() -> FloatArray:
            return measure(self, local, local.valid, alone, temperature)

        def work() -> dict[str, FloatArray]:
            values = self.budget.passing(passes)
            stats = {name: values[..., n] for n, name in enumerate(alone)}
            stats |= compare(self.logits, self.vocabulary, local, compared)
            return {name: values[here] for name, values in stats.items()}

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

        def unchanged(logits: Any, tokens: Any) -> Any:
            return logits

        def work() -> FloatArray:
            values = np.zeros((int(where.sum()), self.vocabulary), dtype=np.float32)
            for batch in self.micro_batches(rollouts, where):
                places = order[batch.rows, batch.positions]
                values[places] = self.passes.evaluate(batch, unchanged)
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
        """Compute the gradient of the batch for the optimiser, and return the figures of the
        update. Each rank computes the passes of its own rows."""

        def work() -> UpdateReport:
            return self.budget.passing(lambda: pass_over(self, update))

        report = self.summed(self.agreed(work))
        if report.evaluated and self.ranks.size > 1:
            self.sum_gradient()
        return report

    def reset_optimizer(self) -> None:
        self.optimizer.reset()

    def save(self, folder: Path) -> None:
        about = {"base": self.base} if self.base else {}  # one entry: the order of several varies
        self.write(folder / WEIGHTS, self.trained_weights(), **about)
        self.write(folder / OPTIMIZER, self.optimizer.state())

    def write(self, path: Path, arrays: dict[str, Any], **about: str) -> None:
        """Write arrays to a file, on rank 0 only."""
        if self.ranks.rank == 0:
            self.write_arrays(path, arrays, **about)

    def restore(self, folder: Path) -> None:
        weights: dict[str, Any] = self.read_arrays(folder / WEIGHTS)
        state: dict[str, Any] = {}
        if self.optimizer is not None:
            state = self.read_arrays(folder / OPTIMIZER)
        differs = self.adapted and stored_base(folder / WEIGHTS) not in ("", self.base)
        if differs or _shapes(weights) != _shapes(self.trained_weights()):
            raise UserError(
                f"{folder} holds the weights of another model.",
                "resume with the model that the run started with",
            )
        kinds = {entry.split("/")[0] for entry in state}
        if self.optimizer and (foreign := kinds - {*self.optimizer.kinds}):
            raise UserError(
                f"Another engine saved the optimiser's state ({', '.join(sorted(foreign))}).",
                "resume with the engine that the run started with",
            )
        self.take(weights, state)

    def peak_memory(self) -> int:
        return self.memory.peak()

    @contextlib.contextmanager
    def _phase(self) -> Generator[None]:
        """Context for sampling or an update, which releases unused memory at its end."""
        try:
            yield
        finally:
            self.memory.end_phase()

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return the part of `describe` that does not depend on the launch of several processes."""

    @abstractmethod
    def adapters(self) -> Any:
        """Return the backend's module with `put_on`, `read` and `taken_off`."""

    @abstractmethod
    def take(self, weights: dict[str, Any], state: dict[str, Any]) -> None:
        """Load saved `trained_weights` and the optimiser's state on this rank."""

    @abstractmethod
    def kept_weights(self) -> Any:
        """Return the current trained weights in a form that later updates do not change."""

    @abstractmethod
    def swapped(self, weights: Any) -> AbstractContextManager[None]:
        """Context in which the model evaluates with `weights`, a result of `kept_weights`."""

    @abstractmethod
    def for_sampling(self, tokens: int) -> AbstractContextManager[Any]:
        """Context in which the model is prepared to decode responses of up to `tokens` tokens fast;
        0 skips preparations that delay the first token."""


def _shapes(weights: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(array.shape) for name, array in weights.items()}

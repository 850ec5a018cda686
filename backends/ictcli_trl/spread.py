"""The TRL engine whose weights stay in their parts while it samples and evaluates
(`engine.sampler`)."""

import contextlib
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from ictcli.engine.distributed import plain, rollouts_of
from ictcli.engine.sampling import Prompts, in_passes, join
from ictcli.engine.update import Update
from ictcli.seeds import uniforms
from ictcli.types import FloatArray, IntArray, Rollouts, Sampling

from . import hooks
from .distributed import TrlEngine
from .sample import evaluated, generated, listed
from .tensors import exchange


class SpreadEngine(TrlEngine):
    """An engine of one rank, which samples by transformers or vLLM. Whole groups stay on a rank; a
    pass of the weights that are trained gives their log-probabilities and statistics."""

    def _generate(
        self,
        prompts: list[list[int]],
        group: int,
        sampling: dict[str, Any],
        seed: str,
        wanted: list[str],
    ) -> Rollouts:
        how: dict[str, Any] = {**sampling, "stop_ids": tuple(sampling["stop_ids"])}
        numbers = uniforms(int(seed), len(prompts) * group, sampling["max_tokens"])
        own = self._share(len(prompts))
        some = numbers.reshape(len(prompts), group, -1)[own].reshape(len(own) * group, -1)
        sampled = self._sampled([prompts[n] for n in own], group, Sampling(**how), some)
        if wanted:
            sampled = self._evaluated(sampled, range(len(own)), sampling["temperature"], wanted)
        return self._joined(sampled, len(prompts))

    def _share(self, prompts: int) -> list[int]:
        """Which of so many prompts are this rank's, as many on each: the last may come again."""
        each = -(-prompts // self.processes.size)
        first = self.processes.rank * each
        return [min(n, prompts - 1) for n in range(first, first + each)]

    def _sampled(
        self, prompts: Prompts, group: int, sampling: Sampling, numbers: FloatArray
    ) -> Rollouts:
        if self.settings.sampler == "vllm":
            moved = self.optimizer.moved
            rows = hooks.vllm_rows(self.trainer, prompts, group, sampling, moved=moved)
            self.optimizer.moved = False
            return listed(prompts, group, sampling, *rows)

        def decode(some: Prompts, part: FloatArray, places: IntArray) -> Rollouts:
            return generated(self.trained, some, group, sampling, part, synced=self.sharded)

        return in_passes(prompts, group, self.budget.rows, numbers, decode)

    def _evaluated(
        self, rollouts: Rollouts, groups: Sequence[int], temperature: float, wanted: Sequence[str]
    ) -> Rollouts:
        """These groups of the rollouts, by the weights that are trained."""
        some = [rollouts.groups(n, n + 1) for n in groups]
        parts = [evaluated(self.trained, x, temperature, wanted, self.vocabulary) for x in some]
        return join(parts, range(len(parts)))

    def _joined(self, own: Rollouts, prompts: int) -> Rollouts:
        """Every rank's share of so many prompts."""
        messages = self.processes.gather(("rollouts", *plain(own)))
        parts = [rollouts_of(*rest) for _, *rest in messages]
        return join(parts, range(sum(len(part.prompts) for part in parts))).groups(0, prompts)

    def _logprobs(self, rollouts: Rollouts, temperature: float, reference: bool) -> FloatArray:
        with self.as_reference() if reference else contextlib.nullcontext():
            own = self._evaluated(rollouts, self._share(len(rollouts.prompts)), temperature, ())
        logp = self._joined(own, len(rollouts.prompts)).logp
        return np.pad(logp, ((0, 0), (0, rollouts.tokens.shape[1] - logp.shape[1])))

    def _reference(self, update: Update) -> FloatArray:
        return self._logprobs(update.rollouts, update.objective.temperature, reference=True)

    @contextlib.contextmanager
    def as_reference(self) -> Generator[None]:
        """Within, the reference's parts are where those of the weights that are trained were."""
        assert self.reference is not None, "a reference needs keep_reference"
        if self.adapted is not None:
            with self.adapters().taken_off(self.trained):
                yield
            return
        trained = dict(self.trained.named_parameters())
        exchange(trained, self.reference)
        try:
            yield
        finally:
            exchange(trained, self.reference)

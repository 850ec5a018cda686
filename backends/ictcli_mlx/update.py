"""One optimiser step on L = -sum w * Psi, pass by pass (`ictcli.engine.packing`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map

from ictcli.algorithm.objective import Objective, k3, surrogate
from ictcli.algorithm.quantities import entropy
from ictcli.engine import packing
from ictcli.engine.budget import Budget
from ictcli.types import BoolArray, FloatArray, Rollouts

from .files import number
from .memory import Memory
from .model import Head, head_logits, model_dtype, recomputing

HINT = "lower engine.micro_tokens, or set engine.gradient_checkpointing=true"


class Passes:
    """Forward and backward passes of one model."""

    def __init__(
        self,
        model: Any,
        heads: Sequence[Head],
        vocabulary: int,
        budget: Budget,
        memory: Memory,
        *,
        recompute: bool,
        compiled: bool,
    ) -> None:
        self.model, self.heads, self.vocabulary = model, heads, vocabulary
        self.budget, self.memory = budget, memory
        self.recompute, self.compiled = recompute, compiled
        self._gradients: dict[Any, Callable[..., Any]] = {}

    def logits_at(self, rollouts: Rollouts, where: BoolArray) -> FloatArray:
        """(N, V) float32 logits at the True places of `where` (B, T), in row-major order."""
        order = np.full(where.shape, -1)
        order[where] = np.arange(int(where.sum()))
        found = np.zeros((int(where.sum()), self.vocabulary), dtype=np.float32)
        for batch in self.budget.micro_batches(rollouts, where, self.vocabulary):
            logits = head_logits(self.model, self.heads, *_inputs(batch))
            found[order[batch.rows, batch.positions]] = np.array(logits)
            self.memory.watch("Evaluating logits", HINT)
        return found

    def logprobs(self, rollouts: Rollouts, temperature: float, wanted: BoolArray) -> FloatArray:
        """(B, T) float32 log-probabilities at the wanted tokens, 0 elsewhere."""
        found = np.zeros(rollouts.tokens.shape, dtype=np.float32)
        for batch in self.budget.micro_batches(rollouts, wanted, self.vocabulary):
            found[batch.rows, batch.positions] = self._logprobs(batch, temperature)
        return found

    def _logprobs(self, batch: packing.MicroBatch, temperature: float) -> FloatArray:
        logits = head_logits(self.model, self.heads, *_inputs(batch))
        logp = np.array(token_logp(logits, mx.array(batch.targets), temperature))
        self.memory.watch("Evaluating log-probabilities", HINT)
        return logp

    def gradient(
        self,
        rollouts: Rollouts,
        weights: FloatArray,
        advantage: FloatArray,
        objective: Objective,
        old_logp: FloatArray | None,
        kl_old: FloatArray | None,
        reference: Callable[[], AbstractContextManager[None]],
        mine: Sequence[int] | None = None,
    ) -> tuple[Any, packing.Tally]:
        """The gradient of the whole batch, float32, by the names of the trained weights (None
        where nothing has a signal), and its figures. Within `reference()` the model is the
        reference policy. `mine`: only these rows."""
        wanted = packing.trained(weights, advantage, objective, kl_old)
        if mine is not None:
            others = np.ones(len(rollouts), dtype=bool)
            others[list(mine)] = False
            wanted[others] = False
        tally = packing.Tally(np.zeros(rollouts.tokens.shape, dtype=np.float32))
        A_BT = np.broadcast_to(advantage[:, None], wanted.shape)
        total: Any = None
        scale = self._loss_scale(weights)
        for batch in self.budget.micro_batches(rollouts, wanted, self.vocabulary):
            given = {"A": batch.take(A_BT), "w": batch.take(weights) * scale}
            if old_logp is not None:
                given["old"] = batch.take(old_logp)
            if kl_old is not None:
                given["kl_old"] = batch.take(kl_old)
            if objective.kl > 0:
                with reference():
                    given["reference"] = self._logprobs(batch, objective.temperature)
            loss, logp, gradient = self._pass(batch, given, objective)
            gradient = tree_map(lambda g: g.astype(mx.float32) / scale, gradient)
            total = gradient if total is None else tree_map(mx.add, total, gradient)
            # ends the pass: its activations can be dropped, the sum of gradients stays
            mx.eval(total, loss, logp)
            self.memory.watch(f"A pass over {batch.ids.size} tokens", HINT)
            seen = np.array(logp)[: len(batch.targets)]
            kl = float(k3(np, seen, given["reference"]).sum()) if objective.kl > 0 else 0.0
            old = given.get("old", seen)
            tally.add(batch, objective, number(loss) / scale, kl, seen, old, given["A"])
        return total, tally

    def _loss_scale(self, weights: FloatArray) -> float:
        """A power of two that brings the largest weight to about 1 where the model computes in
        float16: weights of 1e-6 would make gradients below its smallest number."""
        largest = float(np.abs(weights).max(initial=0))
        if model_dtype(self.model) != mx.float16 or not 0 < largest < np.inf:
            return 1.0
        return float(2.0 ** -np.floor(np.log2(largest)))

    def _pass(
        self, batch: packing.MicroBatch, given: dict[str, np.ndarray], objective: Objective
    ) -> tuple[mx.array, mx.array, Any]:
        """Loss, log pi (N,) and gradient of one micro-batch."""
        ids, places, targets = batch.ids, np.flatnonzero(batch.head), batch.targets
        if self.compiled:  # few shapes, so few traces
            ids, places, targets, given = _bucketed(ids, places, targets, given)
        parameters = self.model.trainable_parameters()
        key = (objective, tuple(given))
        if key not in self._gradients:
            function = mx.value_and_grad(self._loss(objective))
            self._gradients[key] = mx.compile(function) if self.compiled else function
        arrays = {name: mx.array(values) for name, values in given.items()}
        self.model.train()  # some models take a kernel without a gradient else
        try:
            with recomputing(self.model.layers, self.recompute):
                (loss, logp), gradient = self._gradients[key](
                    parameters, mx.array(ids), mx.array(places), mx.array(targets), arrays
                )
        finally:
            self.model.eval()
            self.model.update(parameters)  # it holds the trace's
        return loss, logp, gradient

    def _loss(self, objective: Objective) -> Callable[..., Any]:
        def loss(
            parameters: Any,
            ids: mx.array,
            places: mx.array,
            targets: mx.array,
            given: dict[str, mx.array],
        ) -> tuple[mx.array, mx.array]:
            """-sum w * Psi, and log pi (N,). The weights are an argument, so that a compiled trace
            holds none of an earlier step."""
            self.model.update(parameters)
            logits = head_logits(self.model, self.heads, ids, places)
            logp = token_logp(logits, targets, objective.temperature)
            old = given["old"] if "old" in given else mx.stop_gradient(logp)
            psi = surrogate(mx, logp, old, given["A"], objective)
            if "reference" in given:
                psi = psi - objective.kl * k3(mx, logp, given["reference"])
            if objective.entropy != 0:
                psi = psi + objective.entropy * entropy(mx, mx.softmax(logits, axis=-1))
            if "kl_old" in given:
                psi = psi - given["kl_old"] * mx.abs(logp - old)
            return -(given["w"] * psi).sum(), logp

        return loss


def token_logp(logits: mx.array, targets: mx.array, temperature: float) -> mx.array:
    """(N,) log-probability of the targets under softmax(logits / temperature)."""
    scaled = logits if temperature == 1 else logits / temperature
    picked = mx.take_along_axis(scaled, targets[:, None], axis=-1)[:, 0]
    return picked - mx.logsumexp(scaled, axis=-1)


def _inputs(batch: packing.MicroBatch) -> tuple[mx.array, mx.array]:
    return mx.array(batch.ids), mx.array(np.flatnonzero(batch.head))


def _bucketed(
    ids: np.ndarray, places: np.ndarray, targets: np.ndarray, given: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Rows, lengths and wanted places padded to a bucket's size. An added place repeats the last
    one, so that its numbers are finite, and weighs 0."""
    R, S = ids.shape
    wide = np.zeros((packing.bucket(R), packing.bucket(S)), dtype=ids.dtype)
    wide[:R, :S] = ids
    more = (0, packing.bucket(len(places), 2) - len(places))
    places = np.pad(places // S * wide.shape[1] + places % S, more, mode="edge")
    padded = {name: np.pad(values, more, mode="edge") for name, values in given.items()}
    padded["w"] = np.pad(given["w"], more)
    return wide, places, np.pad(targets, more, mode="edge"), padded

"""The forward and backward pass of one micro-batch (`ictcli.engine.core` loops over them)."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map

from ictcli.algorithm.objective import Objective, policy_loss, token_logp
from ictcli.engine.packing import MicroBatch, bucket
from ictcli.engine.update import Update
from ictcli.types import FloatArray

from .device import Memory
from .files import number
from .model import find_heads, head_logits, model_dtype, recomputing
from .optimizer import Optimizer

HINT = "lower engine.micro_tokens, or set engine.gradient_checkpointing=true"


class Passes:
    """Forward and backward passes of one model."""

    def __init__(
        self,
        model: Any,
        optimizer: Optimizer | None,
        memory: Memory,
        *,
        recompute: bool,
        compiled: bool,
    ) -> None:
        self.model, self.heads, self.memory = model, find_heads(model), memory
        self.optimizer = optimizer
        self.recompute, self.compiled = recompute, compiled
        self._gradients: dict[Any, Callable[..., Any]] = {}

    def logits(self, batch: MicroBatch) -> FloatArray:
        """(N, V) float32 at the wanted places."""
        logits = np.array(head_logits(self.model, self.heads, *_inputs(batch)))
        self.memory.watch("Evaluating logits", HINT)
        return logits

    def logprobs(self, batch: MicroBatch, temperature: float) -> FloatArray:
        """(N,) float32 log-probabilities of the wanted tokens."""
        logits = head_logits(self.model, self.heads, *_inputs(batch))
        logp = np.array(token_logp(mx, logits, mx.array(batch.targets), temperature))
        self.memory.watch("Evaluating log-probabilities", HINT)
        return logp

    def backward(
        self, batch: MicroBatch, terms: dict[str, FloatArray], whole: Update
    ) -> tuple[float, FloatArray, float]:
        """Add the gradient of one pass over the `whole` to the optimiser's; returns the pass's
        loss, log pi (N,) and summed KL."""
        assert self.optimizer is not None
        scale = self._loss_scale(whole.weights)
        scaled = terms | {"weights": terms["weights"] * scale}
        (loss, logp, kl), gradient = self._pass(batch, scaled, whole.objective)
        self.optimizer.add(tree_map(lambda g: g.astype(mx.float32) / scale, gradient))
        # ends the pass: its activations can be dropped, the sum of gradients stays
        mx.eval(self.optimizer.gradient, loss, logp, kl)
        self.memory.watch(f"A pass over {batch.ids.size} tokens", HINT)
        N = len(batch.targets)
        return number(loss) / scale, np.array(logp)[:N], float(np.array(kl)[:N].sum())

    def _loss_scale(self, weights: FloatArray) -> float:
        """A power of two that brings the largest weight to about 1 where the model computes in
        float16: weights of 1e-6 would make gradients below its smallest number."""
        largest = float(np.abs(weights).max(initial=0))
        if model_dtype(self.model) != mx.float16 or not 0 < largest < np.inf:
            return 1.0
        return float(2.0 ** -np.floor(np.log2(largest)))

    def _pass(
        self, batch: MicroBatch, terms: dict[str, FloatArray], objective: Objective
    ) -> tuple[tuple[mx.array, mx.array, mx.array], Any]:
        """What `policy_loss` gives of one micro-batch, and the gradient."""
        ids, places, targets = batch.ids, np.flatnonzero(batch.head), batch.targets
        if self.compiled:  # few shapes, so few traces
            ids, places, targets, terms = _bucketed(ids, places, targets, terms)
        parameters = self.model.trainable_parameters()
        key = (objective, tuple(terms))
        if key not in self._gradients:
            function = mx.value_and_grad(self._loss(objective))
            self._gradients[key] = mx.compile(function) if self.compiled else function
        arrays = {name: mx.array(values) for name, values in terms.items()}
        self.model.train()  # some models take a kernel without a gradient else
        try:
            with recomputing(self.model.layers, self.recompute):
                return self._gradients[key](
                    parameters, mx.array(ids), mx.array(places), mx.array(targets), arrays
                )
        finally:
            self.model.eval()
            self.model.update(parameters)  # it holds the trace's

    def _loss(self, objective: Objective) -> Callable[..., Any]:
        def loss(
            parameters: Any,
            ids: mx.array,
            places: mx.array,
            targets: mx.array,
            terms: dict[str, mx.array],
        ) -> tuple[mx.array, mx.array, mx.array]:
            """`policy_loss`. The weights are an argument, so that a compiled trace holds none of an
            earlier step."""
            self.model.update(parameters)
            logits = head_logits(self.model, self.heads, ids, places)
            return policy_loss(mx, logits, targets, terms, objective)

        return loss


def _inputs(batch: MicroBatch) -> tuple[mx.array, mx.array]:
    return mx.array(batch.ids), mx.array(np.flatnonzero(batch.head))


def _bucketed(
    ids: np.ndarray, places: np.ndarray, targets: np.ndarray, terms: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Rows, lengths and wanted places padded to a bucket's size. An added place repeats the last
    one, so that its numbers are finite, and weighs 0."""
    R, S = ids.shape
    wide = np.zeros((bucket(R), bucket(S)), dtype=ids.dtype)
    wide[:R, :S] = ids
    more = (0, bucket(len(places), 2) - len(places))
    places = np.pad(places // S * wide.shape[1] + places % S, more, mode="edge")
    padded = {name: np.pad(values, more, mode="edge") for name, values in terms.items()}
    padded["weights"] = np.pad(terms["weights"], more)
    return wide, places, np.pad(targets, more, mode="edge"), padded

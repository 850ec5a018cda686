"""The forward and backward pass of one micro-batch (`ictcli.engine.update` loops over
micro-batches). A prompt that several rows share is computed once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map
from mlx_lm.models.cache import KVCache, make_prompt_cache

from ictcli.algorithm.objective import Objective, TokenTerms, policy_loss
from ictcli.engine.packing import CHUNK_LOGITS, MicroBatch, bucket, chunks
from ictcli.engine.update import Update
from ictcli.types import FloatArray

from .files import number
from .model import Head, find_heads, head_inputs, head_logits, model_dtype, recomputing
from .optimizer import Optimizer

HINT = "lower engine.micro_tokens, or set engine.gradient_checkpointing=true"


class Passes:
    """Forward and backward passes of one model."""

    xp = mx

    def __init__(self, engine: Any) -> None:
        self.model, self.heads, self.memory = engine.model, find_heads(engine.model), engine.memory
        self.optimizer: Optimizer | None = engine.optimizer
        self.recompute, self.compiled = engine.settings.gradient_checkpointing, engine.compiled
        # recomputed layers pass no gradient to the prompts' keys and values
        self.share = shares_prompts(self.model) and not self.recompute
        self.chunk = max(CHUNK_LOGITS // engine.vocabulary, 1)
        self._gradients: dict[Any, Callable[..., Any]] = {}

    def evaluate(
        self, batch: MicroBatch, of: Callable[[mx.array, mx.array], mx.array]
    ) -> FloatArray:
        """Return the values of `of(logits, tokens)` for the batch's N wanted tokens (`MicroBatch`).
        Each call of `of` gets the logits (n, V) and tokens (n,) of a chunk."""
        states = wanted_states(self.model, self.heads, *map(mx.array, _inputs(batch)))
        targets = mx.array(batch.targets)
        parts = [
            np.array(of(head_logits(self.model, self.heads, states[c]), targets[c]))
            for c in chunks(len(targets), self.chunk)
        ]
        self.memory.watch("Evaluating the model", HINT)
        return np.concatenate(parts)

    def backward(
        self, batch: MicroBatch, terms: TokenTerms, whole: Update
    ) -> tuple[float, FloatArray, float]:
        """Add the gradient of one micro-batch of the update `whole` to the optimiser's gradient;
        return the pass's loss, log pi (N,) and summed KL."""
        assert self.optimizer is not None
        scale = self._loss_scale(whole.weights)
        scaled = replace(terms, weights=terms.weights * scale)
        (loss, logp, kl), gradient = self._pass(batch, scaled, whole.objective)
        gradient = tree_map(lambda g: g.astype(mx.float32), gradient)
        if scale != 1:  # dividing by 1 would copy each array
            gradient = tree_map(lambda g: g / scale, gradient)
        self.optimizer.add(gradient)
        # computes the pass now, so that its activations are freed and only the gradient stays
        mx.eval(self.optimizer.gradient, loss, logp, kl)
        self.memory.watch(f"A pass over {batch.tokens} tokens", HINT)
        N = len(batch.targets)
        return number(loss) / scale, np.array(logp)[:N], float(np.array(kl)[:N].sum())

    def _loss_scale(self, weights: FloatArray) -> float:
        """Return a power of two to multiply token weights with. In float16 it scales the largest
        weight to about 1, since the gradients of tiny weights would vanish; else it is 1."""
        largest = float(np.abs(weights).max(initial=0))
        if model_dtype(self.model) != mx.float16 or not 0 < largest < np.inf:
            return 1.0
        return float(2.0 ** -np.floor(np.log2(largest)))

    def _pass(
        self, batch: MicroBatch, terms: TokenTerms, objective: Objective
    ) -> tuple[tuple[mx.array, mx.array, mx.array], Any]:
        inputs = _inputs(batch)
        if self.compiled:  # few shapes, so few compilations
            inputs, terms = _bucketed(inputs, terms)
        parameters = self.model.trainable_parameters()
        form, arrays = terms.map(lambda _: True), list[mx.array]()
        key = (objective, form, len(inputs))
        if key not in self._gradients:
            function = mx.value_and_grad(self._loss(objective, form))
            self._gradients[key] = mx.compile(function) if self.compiled else function
        terms.map(lambda values: arrays.append(mx.array(values)))
        self.model.train()  # in eval mode some models use a kernel without a gradient
        try:
            with recomputing(self.model.layers, self.recompute):
                return self._gradients[key](parameters, arrays, *map(mx.array, inputs))
        finally:
            self.model.eval()
            self.model.update(parameters)  # replaces the arrays that tracing left

    def _loss(self, objective: Objective, form: TokenTerms) -> Callable[..., Any]:
        def loss(
            parameters: Any, arrays: list[mx.array], *inputs: mx.array
        ) -> tuple[mx.array, mx.array, mx.array]:
            """Return `policy_loss`. Weights are an argument, so a trace keeps no old ones."""
            self.model.update(parameters)
            states = wanted_states(self.model, self.heads, *inputs)
            head_loss = self._head_loss(objective, form)
            slices = chunks(len(states), self.chunk)
            if len(slices) > 1:  # else autograd would keep the logits of all chunks
                head_loss = _with_gradient(head_loss)
            weights = [module.trainable_parameters() for module, _ in self.heads]
            parts = [head_loss(weights, states[c], [array[c] for array in arrays]) for c in slices]
            losses, logp, kl = (list(values) for values in zip(*parts, strict=True))
            return mx.stack(losses).sum(), mx.concatenate(logp), mx.concatenate(kl)

        return loss

    def _head_loss(
        self, objective: Objective, form: TokenTerms
    ) -> Callable[..., tuple[mx.array, ...]]:
        def head_loss(
            weights: list[Any], states: mx.array, arrays: list[mx.array]
        ) -> tuple[mx.array, ...]:
            for (module, _), values in zip(self.heads, weights, strict=True):
                module.update(values)
            logits = head_logits(self.model, self.heads, states)
            values = iter(arrays)
            return policy_loss(mx, logits, form.map(lambda _: next(values)), objective)

        return head_loss


def _with_gradient(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Return `loss`, made to compute its gradient with respect to its first two arguments in the
    forward pass. The backward pass then needs no intermediate result."""
    differentiated = mx.value_and_grad(loss, argnums=(0, 1))

    def both(weights: Any, states: mx.array, terms: Any) -> Any:
        values, gradients = differentiated(weights, states, terms)
        return *values, gradients

    function: Any = mx.custom_function(both)

    @function.vjp
    def backward(primals: Any, cotangents: Any, outputs: Any) -> Any:
        by_weights, by_states = cast(Any, tree_map(lambda g: g * cotangents[0], outputs[3]))
        return by_weights, by_states, tree_map(mx.zeros_like, primals[2])

    return lambda *arguments: function(*arguments)[:3]


def _inputs(batch: MicroBatch) -> list[np.ndarray]:
    arrays: list[np.ndarray] = [batch.ids, np.flatnonzero(batch.head)]
    if batch.shared:
        arrays += [batch.shared.ids, batch.shared.lengths, batch.shared.of_row]
    return arrays


def _bucketed(inputs: list[np.ndarray], terms: TokenTerms) -> tuple[list[np.ndarray], TokenTerms]:
    """Return the inputs and terms padded to one of few sizes (`bucket`). Added places repeat the
    last place, so that their numbers are finite, and have weight 0."""
    ids, places, *prompts = inputs
    wide = _widened(ids)
    before, now = (array.shape[1] + bool(prompts) for array in (ids, wide))
    more = (0, bucket(len(places), 2) - len(places))
    places = np.pad(places // before * now + places % before, more, mode="edge")
    if prompts:
        shared = _widened(prompts[0])
        sizes = (len(shared), len(wide))
        prompts[0] = shared
        prompts[1:] = [
            np.pad(array, (0, size - len(array)), mode="edge")
            for array, size in zip(prompts[1:], sizes, strict=True)
        ]
    padded = terms.map(lambda values: np.pad(values, more, mode="edge"))
    return [wide, places, *prompts], replace(padded, weights=np.pad(terms.weights, more))


def _widened(ids: np.ndarray) -> np.ndarray:
    rows, length = ids.shape
    return np.pad(ids, ((0, bucket(rows) - rows), (0, bucket(length) - length)))


class PromptCache(KVCache):
    """A KV cache that keeps the prompts' keys and values for `ResponseCache`."""

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        self.keys, self.values = keys, values
        return keys, values


class ResponseCache:
    """A cache that returns the prompts' keys and values before the responses' own. `offset` (R,) is
    each row's next position; `prompt_mask` (R, P) is False on padding."""

    def __init__(
        self, prompts: PromptCache, of_row: mx.array, offset: mx.array, prompt_mask: mx.array
    ) -> None:
        self.keys, self.values = prompts.keys[of_row], prompts.values[of_row]
        self.offset, self._prompt_mask = offset, prompt_mask

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        keys = mx.concatenate([self.keys, keys], axis=2)
        return keys, mx.concatenate([self.values, values], axis=2)

    def make_mask(self, N: int, **kwargs: Any) -> mx.array:
        """Return the attention mask (R, 1, N, P + N): causal, with the prompt visible."""
        R, P = self._prompt_mask.shape
        prompts = mx.broadcast_to(self._prompt_mask[:, None, None], (R, 1, N, P))
        causal = mx.broadcast_to(mx.tri(N, dtype=mx.bool_), (R, 1, N, N))
        return mx.concatenate([prompts, causal], axis=-1)


def shares_prompts(model: Any) -> bool:
    """Return whether the model can run a prompt once for several rows: every block attends to all
    earlier keys and values, and takes a mask and a position for each row."""
    if any(type(cache) is not KVCache for cache in make_prompt_cache(model)):
        return False
    rows = 13  # unlike any number of heads, so that a mask by rows does not fit heads
    ids, prompts = mx.zeros((rows, 2), dtype=mx.int32), mx.zeros((1, 2), dtype=mx.int32)
    of_row = mx.zeros((rows,), dtype=mx.int32)
    try:  # builds the graph of a pass without computing it
        wanted_states(model, (), ids, mx.array([0]), prompts, mx.array([2]), of_row)
    except (ValueError, TypeError):
        return False
    return True


def wanted_states(
    model: Any, heads: Sequence[Head], ids: mx.array, places: mx.array, *prompts: mx.array
) -> mx.array:
    """Return the (N, H) states in front of the LM head at the flat `places` (N,). `prompts` are the
    fields of `ictcli.engine.packing.Prompts` if rows share prompts, else empty."""
    if not prompts:
        states = head_inputs(model, heads, ids)
    else:
        shared, lengths, of_row = prompts
        caches = [PromptCache() for _ in model.layers]
        states = head_inputs(model, heads, shared, caches)
        ends = states[mx.arange(len(shared)), lengths - 1]
        mask = (mx.arange(shared.shape[1]) < lengths[:, None])[of_row]
        offset = lengths[of_row]
        rows = [ResponseCache(cache, of_row, offset, mask) for cache in caches]
        states = head_inputs(model, heads, ids, rows)
        states = mx.concatenate([ends[of_row][:, None], states], axis=1)
    return states.reshape(-1, states.shape[-1])[places]

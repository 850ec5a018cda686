"""The forward and backward pass of one micro-batch (`ictcli.engine.update` loops over them), each
prompt run once where its rows share it."""

import contextlib
import inspect
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from ictcli.algorithm.objective import TokenTerms, policy_loss
from ictcli.engine.packing import CHUNK_LOGITS, MicroBatch, chunks
from ictcli.engine.shape import rope_settings
from ictcli.engine.update import Update
from ictcli.types import BoolArray, FloatArray, IntArray

from . import namespace
from .model import blocks, cache_argument, decoder_of, frugal, head_logits, text_config

FOLLOWING = ("dynamic", "longrope")
"""Kinds of rotary frequencies that follow the length of a pass, padding included."""


class Passes:
    """Forward and backward passes of one model. The LM head takes a chunk of states at a time, so
    that its logits never lie in memory all at once."""

    xp = namespace

    def __init__(self, engine: Any) -> None:
        self.model, self.root = engine.model, engine.root
        recompute = engine.settings.gradient_checkpointing
        plain = engine.small and not recompute
        spare = partial(frugal, recompute=recompute)
        self.sparing: Any = contextlib.nullcontext if plain else spare
        self.share = shares_prompts(self.model)
        self.chunk = max(CHUNK_LOGITS // engine.vocabulary, 1)

    @torch.inference_mode()
    def evaluate(self, batch: MicroBatch, of: Callable[[Tensor, Tensor], Tensor]) -> FloatArray:
        """What `of` makes of the logits (n, V) and the tokens (n,) at the wanted places, whose
        first axis becomes (N,)."""
        states, targets = wanted_states(self.model, batch), self._on_device(batch.targets).long()
        parts = [
            of(head_logits(self.model, states[c]), targets[c]).cpu().numpy()
            for c in chunks(len(states), self.chunk)
        ]
        return np.concatenate(parts)

    def backward(
        self, batch: MicroBatch, terms: TokenTerms, whole: Update
    ) -> tuple[float, FloatArray, float]:
        """Add the gradient of one pass over the `whole` to the parameters' `.grad`; returns the
        pass's loss, log pi (N,) and summed KL."""
        on_device = terms.map(self._on_device)
        on_device = replace(on_device, targets=on_device.targets.long())
        losses, kls = list[Tensor](), list[Tensor]()  # on the device: a chunk waits for no other
        logp, gradients = list[Tensor](), list[Tensor]()
        model = self.root.model if self.root else self.model
        with self.sparing(model):
            states = self.root(wanted_states, batch) if self.root else wanted_states(model, batch)
            for part in chunks(len(states), self.chunk):
                leaf = states[part].detach().requires_grad_()
                some = on_device.map(itemgetter(part))
                figures = policy_loss(namespace, head_logits(model, leaf), some, whole.objective)
                figures[0].backward()
                losses.append(figures[0].detach())
                kls.append(figures[2].detach().sum())
                logp.append(figures[1].detach())
                assert leaf.grad is not None
                gradients.append(leaf.grad)
            states.backward(torch.cat(gradients))
        loss, kl = (sum(torch.stack(values).tolist()) for values in (losses, kls))
        return loss, torch.cat(logp).cpu().numpy(), kl

    def _on_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.model.device)


Places = tuple[Tensor, Tensor]
"""Rows (N,) and positions (N,)."""


class PromptLayer(DynamicLayer):
    """Keeps the keys and values of one run, for `ResponseLayer`. Run again for its gradient, a
    block keeps them again."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        self.keys, self.values = key_states, value_states
        return key_states, value_states


class ResponseLayer(DynamicLayer):
    """Puts the prompts' keys and values in front of those of their responses, and keeps none."""

    def __init__(self, prompts: PromptLayer, of_row: Tensor) -> None:
        super().__init__()
        self.keys, self.values = prompts.keys, prompts.values
        self.is_initialized = True
        self._of_row = of_row

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        assert self.keys is not None and self.values is not None
        keys, values = self.keys[self._of_row], self.values[self._of_row]
        return torch.cat([keys, key_states], dim=-2), torch.cat([values, value_states], dim=-2)


def shares_prompts(model: Any) -> bool:
    """Whether rows can share a prompt: every block looks back at all keys and values before it, the
    caller says where each row stands, and what it is rotated by does not follow its length."""
    ropes = rope_settings(text_config(model).to_dict())
    return (
        all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)
        and takes_positions(model)
        and not any(rope.get("rope_type") in FOLLOWING for rope in ropes)
    )


def takes_positions(model: Any) -> bool:
    """Whether the model continues a cache from positions that it is given. One that counts them
    itself counts padding too."""
    decoder = decoder_of(model)
    parameters = inspect.signature(decoder.forward).parameters
    return {cache_argument(type(decoder)), "position_ids"} <= parameters.keys()


@contextlib.contextmanager
def narrow_end(model: Any, places: Places) -> Generator[None]:
    """Within, the last block's MLP runs at `places` of (R, S) alone: only their states are read,
    and no other place sees them."""
    mlp: Any = getattr(blocks(model)[-1], "mlp", None)
    if not _is_of_states_alone(mlp):
        yield
        return
    plain = mlp.forward

    def forward(states: Tensor) -> Tensor:
        given = plain(states[places])
        return given.new_zeros(states.shape).index_put(places, given)

    mlp.forward = forward
    try:
        yield
    finally:
        del mlp.forward


def _is_of_states_alone(mlp: Any) -> bool:
    """Whether it is an MLP that takes states and gives states. Some take a residual too, and a
    router's gives more."""
    if not type(mlp).__name__.endswith("MLP") or hasattr(mlp, "experts"):
        return False
    return len(inspect.signature(mlp.forward).parameters) == 1


def wanted_states(model: Any, batch: MicroBatch) -> Tensor:
    """(N, H) states in front of the LM head, at the wanted places."""
    trunk, device = decoder_of(model), model.device

    def on_device(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(device)

    def at(mask: BoolArray) -> Places:  # a mask on a GPU would be waited for
        row, place = mask.nonzero()
        return on_device(row), on_device(place)

    ids = on_device(batch.ids)
    if batch.shared is None:
        with narrow_end(model, at(batch.head)):
            return trunk(input_ids=ids, use_cache=False).last_hidden_state[at(batch.head)]
    shared, named = batch.shared, cache_argument(type(trunk))
    prompts, of_row, lengths = map(on_device, (shared.ids, shared.of_row, shared.lengths))
    cache: Any = DynamicCache(config=model.config)
    cache.layers = [PromptLayer() for _ in cache.layers]
    ends = torch.arange(len(prompts), device=device), lengths - 1
    with narrow_end(model, ends):
        prompt_states = trunk(input_ids=prompts, use_cache=True, **{named: cache})
    cache_of_rows: Any = DynamicCache(config=model.config)
    cache_of_rows.layers = [ResponseLayer(layer, of_row) for layer in cache.layers]
    mask = _mask(shared.lengths[shared.of_row], batch.ids.shape[1])
    with narrow_end(model, at(batch.head[:, 1:])):
        states = trunk(
            input_ids=ids,
            attention_mask=None if mask is None else on_device(mask),
            position_ids=lengths[of_row, None] + torch.arange(ids.shape[1], device=device),
            use_cache=True,
            **{named: cache_of_rows},
        ).last_hidden_state
    first = prompt_states.last_hidden_state[ends][of_row, None]
    return torch.cat([first, states], dim=1)[at(batch.head)]


def _mask(prompts: IntArray, length: int) -> IntArray | None:
    """(R, P + length) without the padding of shorter prompts, of so many tokens (R,); None where
    there is none."""
    longest = int(prompts.max())
    if (prompts == longest).all():
        return None
    places = np.arange(longest + length)
    return ((places < prompts[:, None]) | (places >= longest)).astype(np.int64)

"""The forward and backward pass of one micro-batch (`ictcli.engine.update` loops over
micro-batches). A prompt that several rows share is computed once."""

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
from ictcli.types import FloatArray, IntArray

from . import namespace
from .attention import NO_MASK, Grid, Kept, Packed
from .model import blocks, cache_argument, decoder_of, frugal, head_logits, text_config

FOLLOWING = ("dynamic", "longrope")
"""RoPE types whose frequencies depend on the length of a pass, padding included."""


class Passes:
    """Forward and backward passes of one model. The LM head runs on a chunk of states at a time, so
    that its logits are never all in memory."""

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
        """Return the values of `of(logits, tokens)` for the batch's N wanted tokens (`MicroBatch`).
        Each call of `of` gets the logits (n, V) and tokens (n,) of a chunk."""
        states, targets = wanted_states(self.model, batch), self._on_device(batch.targets).long()
        parts = [
            of(head_logits(self.model, states[c]), targets[c]).cpu().numpy()
            for c in chunks(len(states), self.chunk)
        ]
        return np.concatenate(parts)

    def backward(
        self, batch: MicroBatch, terms: TokenTerms, whole: Update
    ) -> tuple[float, FloatArray, float]:
        """Add the gradient of one micro-batch of the update `whole` to the parameters' `.grad`;
        return the micro-batch's loss, log pi (N,) and summed KL."""
        on_device = terms.map(self._on_device)
        on_device = replace(on_device, targets=on_device.targets.long())
        losses, kls = list[Tensor](), list[Tensor]()  # on the device, without waiting
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


def shares_prompts(model: Any) -> bool:
    """Return whether the model can run a pass without padding, with shared prompts: every block
    attends to all earlier keys and values by the attention function that takes a layout, positions
    are an argument, and RoPE frequencies do not depend on the length."""
    ropes, trunk = rope_settings(text_config(model).to_dict()), decoder_of(model)
    taken = inspect.signature(trunk.forward).parameters.keys()
    return (
        all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)
        and {cache_argument(type(trunk)), "position_ids"} <= taken
        and not any(rope.get("rope_type") in FOLLOWING for rope in ropes)
        and len(asked_of(model)) == len(blocks(model))
    )


@torch.no_grad()
def asked_of(model: Any) -> list[bool]:
    """For each block that calls the attention function once with the layout, return whether values
    are as wide as keys, as `AfterPrompts` needs. The first call runs the model on two tokens to
    find this out: a model's code may ignore the layout."""
    if "asked" not in vars(model):
        kept, two = dict[int, tuple[Tensor, Tensor]](), torch.arange(2, device=model.device)[None]
        how = {"attention_mask": NO_MASK, "layout": Packed(2, Grid((1, 2)), kept=kept)}
        model.asked = []
        with contextlib.suppress(Exception):  # models reject arguments with many errors
            model(input_ids=two, position_ids=two, use_cache=False, **how)
            model.asked = [key.shape == value.shape for key, value in kept.values()]
    return model.asked


@contextlib.contextmanager
def narrow_end(model: Any, places: Tensor) -> Generator[None]:
    """Run the last block's MLP only at `places` (n,) of a pass's tokens: no other state of this
    block is used, and an MLP computes each place by itself."""
    mlp: Any = getattr(blocks(model)[-1], "mlp", None)
    if not _is_of_states_alone(mlp):
        yield
        return
    plain = mlp.forward

    def forward(states: Tensor) -> Tensor:
        rows = states.flatten(0, -2)
        outputs = plain(rows[places])
        return torch.zeros_like(rows).index_copy(0, places, outputs).view(states.shape)

    mlp.forward = forward
    try:
        yield
    finally:
        del mlp.forward


def _is_of_states_alone(mlp: Any) -> bool:
    """Return whether the module is an MLP with states as its only input and output. Some MLPs also
    take a residual, and routed MLPs return more."""
    if not type(mlp).__name__.endswith("MLP") or hasattr(mlp, "experts"):
        return False
    return len(inspect.signature(mlp.forward).parameters) == 1


def wanted_states(model: Any, batch: MicroBatch, kept: Kept | None = None) -> Tensor:
    """Return the states (N, H), in front of the LM head, that predict wanted tokens. `kept`, if
    given, is filled with the prompts' keys and values."""
    device = model.device

    def on_device(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(device)

    ids, wanted = batch.ids, np.flatnonzero(batch.head)
    how: dict[str, Any] = {}
    if "packs" not in vars(model):
        model.packs = shares_prompts(model)  # stored: it takes milliseconds
    if model.packs:
        ids, positions, wanted, layout = _packed(batch, on_device)
        how = {"position_ids": on_device(positions), "layout": replace(layout, kept=kept)}
        how["attention_mask"] = NO_MASK
    with narrow_end(model, on_device(np.unique(wanted))):
        states = decoder_of(model)(input_ids=on_device(ids), use_cache=False, **how)
    return states.last_hidden_state.flatten(0, -2)[on_device(wanted)]


def _packed(
    batch: MicroBatch, on_device: Callable[[np.ndarray], Tensor]
) -> tuple[IntArray, IntArray, IntArray, Packed]:
    """Return the unpadded tokens of a pass (1, n), their positions (1, n), the index of the token
    that predicts each wanted token (N,), and the layout."""
    shared, head = batch.shared, batch.head
    ends = head.shape[1] - 1 - head[:, ::-1].argmax(axis=1)  # the last place of each row

    def grid(number: IntArray, places: IntArray) -> Grid:
        shape = number.shape[0], number.shape[1]
        return Grid(shape, *map(on_device, (number.ravel(), places)))

    row, column = head.nonzero()
    lengths = ends + 1 if shared is None else shared.lengths
    ids = batch.ids if shared is None else shared.ids
    P = int(lengths.max())
    real = np.arange(P) < lengths[:, None]
    number = np.where(real, np.cumsum(real).reshape(real.shape) - 1, 0)
    position, first = real.nonzero()[1], ids[:, :P][real]
    prompts = Grid(real.shape) if real.all() else grid(number, np.flatnonzero(real))
    if shared is None:
        return first[None], position[None], number[row, column], Packed(len(first), prompts)
    prompt, of_row = lengths[shared.of_row], shared.of_row
    later, places = _texts(batch.ids, np.maximum(ends, 1), of_row)
    ends_at = number[of_row, prompt - 1][row]
    wanted = np.where(column == 0, ends_at, len(first) + later[row, column - 1])
    S = later.shape[1]
    place, step = np.arange(P + S), np.arange(S)
    seen = (place < prompt[:, None, None]) | (place >= P) & (place - P <= step[:, None])
    seen = seen[:1] if (prompt == P).all() else seen
    responses = grid(later, places)
    mask = on_device(seen[:, None])
    layout = Packed(len(first), prompts, responses, on_device(of_row), mask)
    ids = np.concatenate([first, batch.ids[:, :S].ravel()[places]])
    position = np.concatenate([position, (prompt[:, None] + step).ravel()[places]])
    return ids[None], position[None], wanted, layout


def _texts(ids: IntArray, lengths: IntArray, text: IntArray) -> tuple[IntArray, IntArray]:
    """Number the tokens of rows; a beginning shared by rows of one `text` (R,) is numbered once.
    Return the numbers (R, S), 0 after a row's length, and each number's place in the flat `ids`."""
    S, places, count = int(lengths.max()), list[IntArray](), 0
    numbers, text = np.zeros((len(ids), S), dtype=np.int64), text.astype(np.int64)
    for t in range(S):
        rows = np.flatnonzero(lengths > t)
        pairs = text[rows] << 32 | ids[rows, t]
        _, which, number = np.unique(pairs, return_index=True, return_inverse=True)
        numbers[rows, t] = text[rows] = count + number
        places.append(rows[which] * S + t)
        count += len(which)
    return numbers, np.concatenate(places)

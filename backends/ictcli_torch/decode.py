"""The decoding step: plain, or at fixed shapes, which a CUDA graph can replay.

A plain step of a small model is some 500 kernels, each launched from Python in more time than the
GPU needs to run it. A graph launches all of them at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictcli.engine.packing import MicroBatch
from ictcli.errors import UserError, text_of

from .attention import NO_MASK, AfterPrompts, Grid, Kept
from .cache import FixedLayer, new_cache
from .device import ran_out
from .model import cache_argument, head_logits
from .passes import shares_prompts, wanted_states


@dataclass(frozen=True)
class Prefix:
    """Prompts (P, L) that were read, those of several lengths padded on the left."""

    logits: Tensor
    """(P, V) float32, of the last position."""
    cache: Any
    mask: Tensor | None
    """(P, L); None where nothing is padded."""
    lengths: Tensor
    """(P,)"""


def read(model: Any, prompts: Sequence[Sequence[int]]) -> Prefix:
    """Run each prompt once."""
    device = model.device
    longest, shortest = max(map(len, prompts)), min(map(len, prompts))
    ids = torch.zeros((len(prompts), longest), dtype=torch.long)
    mask = torch.zeros((len(prompts), longest), dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = torch.tensor(prompt)
        mask[row, longest - len(prompt) :] = 1
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    used = mask.to(device) if shortest < longest else None
    cache: Any = new_cache(model.config)
    logits = _forward(model, ids.to(device), cache, used, positions.to(device)).float()
    return Prefix(logits, cache, used, mask.sum(1).to(device))


def read_once(model: Any, prompts: Sequence[Sequence[int]]) -> Prefix:
    """Read for `SharedDecoder`: `cache` holds the prompts' keys and values by block, and `mask` (P,
    1, 1, L) is added to scores."""
    lengths = np.array([len(prompt) for prompt in prompts])
    ids, places = np.zeros((len(prompts), lengths.max()), np.int32), np.arange(lengths.max())
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt)] = prompt
    kept: Kept = {}
    none = np.zeros(0, np.int32)
    batch = MicroBatch(ids, places == lengths[:, None] - 1, none, none, none)
    logits = head_logits(model, wanted_states(model, batch, kept))
    mask = torch.from_numpy(np.where(places < lengths[:, None], 0, -np.inf).astype(np.float32))
    padded = (lengths < len(places)).any()
    return Prefix(logits, kept, mask[:, None, None] if padded else None, torch.from_numpy(lengths))


def _forward(
    model: Any, ids: Tensor, cache: Any, mask: Tensor | None, positions: Tensor, **how: Any
) -> Tensor:
    output = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        use_cache=True,
        logits_to_keep=1,
        **how,
        **{cache_argument(type(model)): cache},
    )
    return output.logits[:, -1]


class GrowingDecoder:
    """Plain forward passes of the rows alive, any kind of cache growing with them.

    Made of a model, prompts that it read, the prompt of each row (R,), and a number of steps.
    `step` gives logits (R, V) float32 after the tokens (R,); `keep` continues with some of the
    rows."""

    def __init__(self, model: Any, prefix: Prefix, of_row: Tensor, steps: int) -> None:
        self._model, self._cache = model, prefix.cache
        # Every kind of cache layer knows this one verb; recurrent layers lack
        # batch_repeat_interleave.
        self._cache.reorder_cache(of_row)
        self._mask = None if prefix.mask is None else prefix.mask[of_row]
        self._position = prefix.lengths[of_row]

    def step(self, token: Tensor) -> Tensor:
        if self._mask is not None:
            self._mask = torch.cat([self._mask, self._mask.new_ones((len(token), 1))], dim=1)
        ids, positions = token[:, None], self._position[:, None]
        logits = _forward(self._model, ids, self._cache, self._mask, positions)
        self._position = self._position + 1
        return logits.float()

    def keep(self, alive: Tensor) -> None:
        self._position = self._position[alive]
        self._mask = None if self._mask is None else self._mask[alive]
        self._cache.reorder_cache(alive)


class SharedDecoder:
    """`GrowingDecoder` of prompts that `read_once` read, whose keys and values all their rows read
    where they are. Rows whose texts are the same so far are one row of the pass, whose cache begins
    after the prompt."""

    def __init__(self, model: Any, prefix: Prefix, of_row: Tensor, steps: int) -> None:
        self._model, self._prefix, self._cache = model, prefix, new_cache(model.config)
        self._steps = 0
        self._prompt = torch.arange(len(prefix.lengths))
        """Of each row of the pass."""
        self._place = of_row
        """The row of the pass that holds each row's text without its last token."""

    def step(self, token: Tensor) -> Tensor:
        texts = torch.stack([self._place, token])
        (before, last), self._place = texts.unique(dim=1, return_inverse=True)
        if len(before) != len(self._prompt) or (before.diff() != 1).any():
            self._cache.reorder_cache(before)
            self._prompt = self._prompt[before]
        counts = torch.bincount(self._prompt, minlength=len(self._prefix.lengths))
        shape = len(counts), int(counts.max())
        number = torch.arange(len(last)) - (counts.cumsum(0) - counts)[self._prompt]
        full = len(last) == shape[0] * shape[1]
        rows = Grid(shape)
        if not full:
            places = self._prompt * shape[1] + number
            tokens = torch.zeros(shape[0] * shape[1], dtype=torch.long)
            rows = Grid(shape, tokens.index_copy(0, places, torch.arange(len(last))), places)
        layout = AfterPrompts(self._prefix.cache, self._prefix.mask, rows)
        position = (self._prefix.lengths[self._prompt] + self._steps)[:, None]
        logits = _forward(self._model, last[:, None], self._cache, NO_MASK, position, layout=layout)
        self._steps += 1
        in_order = len(self._place) == len(last) and bool((self._place.diff() > 0).all())
        return logits.float() if in_order else logits.float()[self._place]

    def keep(self, alive: Tensor) -> None:
        self._place = self._place[alive]


class FixedDecoder:
    """Forward passes whose tensors keep their shapes and addresses, replayed on CUDA.

    Rows that ended are decoded along. Decoding without them would need another graph, which costs
    more time than it saves, so they leave when the cache is full and a graph is made anyway.
    """

    ROOM = 256
    """Positions that a cache has free at first. Its length doubles when it is full."""

    def __init__(self, model: Any, prefix: Prefix, of_row: Tensor, steps: int) -> None:
        self._model, self._cache, self._steps = model, prefix.cache, steps
        self._filled, self._free = prefix.cache.get_seq_length(), 0
        self._position = prefix.lengths[:, None]
        mask = prefix.mask
        if mask is None:
            mask = torch.ones((len(prefix.lengths), self._filled), device=of_row.device)
        self._mask = mask
        self._width = prefix.logits.shape[1]
        self._rows = of_row
        """Which of the rows of these tensors are alive."""
        self._run: Run = _plainly

    def step(self, token: Tensor) -> Tensor:
        if self._free == 0:
            self._extend()
        self._token[self._rows, 0] = token
        self._run(self._work)
        self._free, self._filled, self._steps = self._free - 1, self._filled + 1, self._steps - 1
        return self._logits[self._rows]

    def keep(self, alive: Tensor) -> None:
        self._rows = self._rows[alive]

    def _extend(self) -> None:
        """Take the rows alive to tensors with more room."""
        self._run = _plainly  # a graph holds memory
        rows, device, filled = self._rows, self._rows.device, self._filled
        self._free = min(self._steps, max(filled, self.ROOM))
        length = -(-(filled + self._free) // 8) * 8  # or attention would copy the mask
        self._place = torch.tensor([filled], device=device)
        for i, layer in enumerate(self._cache.layers):
            self._cache.layers[i] = FixedLayer(layer, rows, filled, length, self._place)
        mask = torch.zeros((len(rows), length), dtype=torch.bool, device=device)
        mask[:, :filled] = self._mask[rows, :filled]
        self._mask, self._position = mask, self._position[rows]
        self._token = torch.zeros_like(self._position)
        self._logits = torch.zeros((len(rows), self._width), device=device)
        self._rows = torch.arange(len(rows), device=device)
        self._run = runner(device)

    def _work(self) -> None:
        """Run a step that reads and writes fixed tensors, and waits for nothing."""
        self._mask.index_fill_(1, self._place, True)
        logits = _forward(self._model, self._token, self._cache, self._mask, self._position)
        self._logits.copy_(logits)
        self._position.add_(1)
        self._place.add_(1)


Work = Callable[[], None]
Run = Callable[[Work], None]
"""Runs a function whose tensors keep their shapes and addresses, the same one in each call."""


def runner(device: torch.device) -> Run:
    """Return what runs a step: on CUDA a graph that is replayed."""
    return Replay(device) if device.type == "cuda" else _plainly


def _plainly(work: Work) -> None:
    work()


class Replay:
    """A function that runs plainly at first, which sets up what a capture cannot, then as a CUDA
    graph."""

    def __init__(self, device: torch.device) -> None:
        self._stream = _side_stream(device)
        self._warm = False
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, work: Work) -> None:
        if not self._warm:
            current = torch.cuda.current_stream(self._stream.device)
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                work()
            current.wait_stream(self._stream)
            self._warm = True
            return
        if self._graph is None:
            self._graph = _capture(work, self._stream)
        self._graph.replay()


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """Return one stream for all graphs: cuBLAS keeps a workspace for every stream."""
    return torch.cuda.Stream(device)


def _capture(work: Work, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    try:
        with (
            torch.cuda.stream(stream),  # a capture that breaks off does not leave its stream
            torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"),
        ):
            work()
    except RuntimeError as error:
        if ran_out(error):
            raise
        raise UserError(
            f"This model's decoding step cannot be a CUDA graph: {text_of(error)}.",
            "engine.compile=off decodes without",
        ) from error
    return graph


def has_fixed_step(model: Any) -> bool:
    """Return whether a step can have fixed shapes and decide nothing on the host: full attention in
    every block, by PyTorch's kernels, no experts, no frequencies that follow the length, and a
    forward pass that transformers compiles as a whole."""
    return (
        shares_prompts(model)
        and getattr(model, "_can_compile_fullgraph", False)
        and model.config._attn_implementation == "sdpa"
        and not model._can_set_experts_implementation()
    )

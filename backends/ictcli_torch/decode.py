"""The decoding step: plain, or with fixed shapes, which a CUDA graph can replay.

A plain step of a small model runs some 500 kernels, and Python takes longer to launch a kernel than
the GPU takes to run it. A graph launches all of them at once.
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
    """The result of prefill: P prompts, padded on the left to L tokens."""

    logits: Tensor
    """(P, V) float32, of the token after each prompt."""
    cache: Any
    mask: Tensor | None
    """(P, L) 1 on tokens, 0 on padding; None without padding."""
    lengths: Tensor
    """(P,) tokens of each prompt."""


def read(model: Any, prompts: Sequence[Sequence[int]]) -> Prefix:
    """Run each prompt once, for decoders other than `SharedDecoder`."""
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
    """Run each prompt once, for `SharedDecoder`: `cache` holds the prompts' keys and values by
    block, and `mask` (P, 1, 1, L) is added to attention scores."""
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
    """Decoding by plain forward passes of the unfinished rows, with any kind of cache. Takes a
    model, its prefilled prompts, the prompt of each row (R,), and the number of steps. `step`
    returns logits (R, V) float32 after the tokens (R,); `keep` drops all but the given rows."""

    def __init__(self, model: Any, prefix: Prefix, of_row: Tensor, steps: int) -> None:
        self._model, self._cache = model, prefix.cache
        self._cache.reorder_cache(of_row)  # recurrent layers lack batch_repeat_interleave
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
    """A `GrowingDecoder` whose rows read their prompt's keys and values in place (`read_once`).
    Rows with the same text so far are one row of the pass, whose cache starts after the prompt."""

    def __init__(self, model: Any, prefix: Prefix, of_row: Tensor, steps: int) -> None:
        self._model, self._prefix, self._cache = model, prefix, new_cache(model.config)
        self._steps = 0
        self._prompt = torch.arange(len(prefix.lengths))
        """The prompt of each row of the pass."""
        self._place = of_row
        """The row of the pass for each rollout. A row's cache lacks the last token of its text."""

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
    """Decoding with tensors of fixed shapes and addresses, so that CUDA can replay a graph.
    Finished rows are still decoded: dropping them would need a new graph, which costs more time
    than it saves. They are dropped when the cache is full and needs a new graph anyway."""

    ROOM = 256
    """Number of free positions in a new cache. Its length doubles when full."""

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
        """Indices of the unfinished rows in the fixed tensors."""
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
        """Copy the unfinished rows to tensors with room for more tokens."""
        self._run = _plainly  # frees the old graph's memory
        rows, device, filled = self._rows, self._rows.device, self._filled
        self._free = min(self._steps, max(filled, self.ROOM))
        length = -(-(filled + self._free) // 8) * 8  # else attention copies the mask
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
        """Run a step on fixed tensors without waiting for the device."""
        self._mask.index_fill_(1, self._place, True)
        logits = _forward(self._model, self._token, self._cache, self._mask, self._position)
        self._logits.copy_(logits)
        self._position.add_(1)
        self._place.add_(1)


Work = Callable[[], None]
Run = Callable[[Work], None]
"""Runs a decoding step whose tensors keep shapes and addresses; in every call the same step."""


def runner(device: torch.device) -> Run:
    """Return the `Run` of a device: on CUDA it replays a graph."""
    return Replay(device) if device.type == "cuda" else _plainly


def _plainly(work: Work) -> None:
    work()


class Replay:
    """Calls a function directly at first, which allows setup, then replays it as a CUDA graph."""

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
    """Return the stream of all graphs: cuBLAS keeps a workspace for every stream."""
    return torch.cuda.Stream(device)


def _capture(work: Work, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    try:
        with (
            torch.cuda.stream(stream),  # leaves the stream even if the capture fails
            torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"),
        ):
            work()
    except RuntimeError as error:
        if ran_out(error):
            raise
        raise UserError(
            f"The decoding step cannot be captured as a CUDA graph: {text_of(error)}.",
            "engine.compile=off decodes without a graph",
        ) from error
    return graph


def has_fixed_step(model: Any) -> bool:
    """Return whether a step can have fixed shapes and no decision on the host: full attention with
    PyTorch's kernels in every block, no experts, RoPE frequencies independent of the length, and a
    forward pass that transformers compiles as a whole."""
    return (
        shares_prompts(model)
        and getattr(model, "_can_compile_fullgraph", False)
        and model.config._attn_implementation == "sdpa"
        and not model._can_set_experts_implementation()
    )

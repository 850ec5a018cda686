"""Sampling: each prompt is prefilled once, then its G rollouts decode in lock-step."""

import functools
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map
from mlx_lm.models.cache import make_prompt_cache

from ictcli.engine.sampling import Recorder, Written, draw
from ictcli.errors import UserError
from ictcli.types import FloatArray, IntArray, OnTokens, Rollouts, Sampling

from .device import Memory
from .plan import GPU_ELEMENTS, GPU_PREFILL_TOKENS, PENDING_ELEMENTS, PREFILL_TOKENS

GONE = 8
"""Finished rows are removed once they are 1 / GONE of all rows: removal copies the cache."""


def _searchsorted(cdf: mx.array, target: mx.array, *, right: bool) -> mx.array:
    """Return the insertion points (R, 1) of target (R, 1) in cdf (R, V), after equal values."""
    assert right
    return (cdf <= target).sum(axis=-1, keepdims=True)


NAMESPACE = SimpleNamespace(**vars(mx) | {"searchsorted": _searchsorted})
"""mlx.core for `draw`, with a searchsorted of several rows; MLX's takes only one row."""


def lockstep(
    model: Any,
    prompts: Sequence[Sequence[int]],
    group: int,
    sampling: Sampling,
    uniforms: FloatArray,
    wanted: Sequence[str],
    on_tokens: OnTokens | None = None,
    *,
    memory: Memory,
    compiled: bool,
) -> Rollouts:
    """Decode `group` rows for each prompt. `uniforms` (B, T) decide every draw.

    A lane is a row of the arrays on the device. The device computes token t + 1 while Python reads
    token t and finds the rows that end, so the device does not wait for Python.
    """
    B, T = len(prompts) * group, sampling.max_tokens
    parallel = mx.default_device().type == mx.gpu
    recorder = StatsRecorder(wanted, B, T, group, compiled)
    written = Written(B, sampling, on_tokens)

    def begin(logits: mx.array, numbers: FloatArray) -> tuple[mx.array, ...]:
        """Start computing the next tokens, their log p and, for statistics, their logits."""
        drawn = draw(NAMESPACE, logits, mx.array(numbers), sampling, parallel=parallel)
        drawn = (*drawn, logits) if wanted else drawn
        mx.async_eval(drawn)
        return drawn

    logits, caches = _prefill(model, prompts, group, memory)
    lanes = np.arange(B)  # the row of each lane
    alive = np.ones(B, dtype=bool)  # by lane
    drawn = begin(logits, uniforms[:, 0])
    for t in range(T):
        now = drawn
        if t + 1 < T:
            logits = model(now[0][:, None], cache=caches)[:, -1].astype(mx.float32)
            drawn = begin(logits, uniforms[lanes, t + 1])
        live = np.flatnonzero(alive)
        rows, token = lanes[live], np.array(now[0])[live]
        if wanted:
            values = now[2] if len(live) == len(lanes) else now[2][mx.array(live)]
            recorder.add(values, rows, token, written.prefix[rows], t)
        ended = written.add(t, rows, token, np.array(now[1])[live])
        memory.watch(f"Sampling {len(lanes)} rows at once", "lower engine.rows or max_tokens")
        alive[live[ended]] = False
        if not alive.any():
            break
        if t + 1 < T and GONE * np.count_nonzero(~alive) >= len(lanes):
            stay = mx.array(np.flatnonzero(alive))
            drawn = tuple(x[stay] for x in drawn)
            take(caches, stay)
            lanes, alive = lanes[alive], alive[alive]
    rollouts = written.rollouts(prompts, group, recorder.arrays())
    del caches, logits, drawn
    memory.free()  # the next rows have caches of other sizes
    return rollouts


def _prefill(
    model: Any, prompts: Sequence[Sequence[int]], group: int, memory: Memory
) -> tuple[mx.array, list[Any]]:
    """Run each prompt once. Return logits (B, V) of the next token, and caches of all B rows. All
    but the last token of each prompt run in chunks, padded on the right. The last tokens run as one
    step of decoding, so the LM head is computed for them alone."""
    before = [len(prompt) - 1 for prompt in prompts]
    caches = new_cache(model, before)
    longest = max(before)
    padded = min(before) < longest
    on_cpu = mx.default_device().type == mx.cpu
    chunk = max((PREFILL_TOKENS if on_cpu else GPU_PREFILL_TOKENS) // len(prompts), 2)
    if padded:
        longest += longest % chunk == 1  # a sliding-window cache mistakes one token for decoding
        padding = [longest - length for length in before]
        for cache in caches:
            cache.prepare(lengths=before, right_padding=padding)
    ids = np.zeros((len(prompts), longest), dtype=np.int32)
    for row, prompt in enumerate(prompts):
        ids[row, : before[row]] = prompt[:-1]
    for first in range(0, longest, chunk):
        model(mx.array(ids[:, first : first + chunk]), cache=caches)  # logits are never evaluated
        mx.eval([cache.state for cache in caches])  # computes the chunk, frees activations
        memory.watch("Prefilling prompts", "lower engine.rows or prompts, or shorten the prompts")
    if padded:
        for cache in caches:
            cache.finalize()  # moves the padding to the left, where decoding needs it
    last = mx.array([[prompt[-1]] for prompt in prompts])
    logits = model(last, cache=caches)[:, -1].astype(mx.float32)
    rows = mx.array(np.repeat(np.arange(len(prompts)), group))
    take(caches, rows)
    return logits[rows], caches


def new_cache(model: Any, lengths: Sequence[int]) -> list[Any]:
    """Return empty caches for prompts of these lengths. Raise UserError if the lengths differ and
    the model's caches do not support padding. Prompts of one length need no mask and get plain
    caches; others get batched caches with padding."""
    caches = make_prompt_cache(model)
    if len(set(lengths)) == 1:
        return caches
    unknown = [type(cache).__name__ for cache in caches if not hasattr(cache, "merge")]
    if unknown:
        raise UserError(
            f"This model's cache ({unknown[0]} of mlx-lm) cannot hold prompts of unequal length.",
            "set prompts=1",
        )
    return [cache.merge([cache] * len(lengths)) for cache in caches]


def take(caches: Sequence[Any], rows: mx.array) -> None:
    """Keep the rows with the indices `rows` (R',), which may repeat, of each cache."""
    for cache in caches:
        if hasattr(cache, "caches"):  # a layer with several caches
            take(cache.caches, rows)
        elif hasattr(cache, "filter"):
            cache.filter(rows)
        elif not cache.empty():
            cache.keys, cache.values = tree_map(lambda x: x[rows], (cache.keys, cache.values))


class StatsRecorder(Recorder):
    """Computes token statistics of the sampled logits on MLX."""

    def __init__(self, wanted: Sequence[str], B: int, T: int, group: int, compiled: bool) -> None:
        at_once = PENDING_ELEMENTS if mx.default_device().type == mx.cpu else GPU_ELEMENTS
        super().__init__(mx, wanted, B, T, group, PENDING_ELEMENTS, at_once)
        self._compiled = compiled

    def formula(self, name: str) -> Callable[..., mx.array]:
        return _compiled(self.wanted[name].formula) if self._compiled else super().formula(name)

    def measure(
        self, values: mx.array, tokens: IntArray, apart: IntArray, counts: IntArray
    ) -> tuple[dict[str, mx.array], dict[str, mx.array]]:
        measured = super().measure(values, tokens, apart, counts)
        # computes the part now to bound memory: its temporaries are many times its logits
        mx.async_eval(measured)
        return measured

    def means(self, p: mx.array, counts: IntArray) -> tuple[mx.array, mx.array]:
        K, W = len(counts), int(counts.max())
        if len(p) == K * W:
            p = p.reshape(K, W, -1)
            return p, p.mean(axis=1, keepdims=True)
        # pad all segments to the largest one's size; added rows have weight 0
        starts, offsets = np.cumsum(counts) - counts, np.arange(W)
        real = offsets < counts[:, None]
        slots = p[mx.array(starts[:, None] + np.where(real, offsets, 0))]
        share = mx.array((real / counts[:, None]).astype(np.float32))
        means = (slots * share[:, :, None]).sum(axis=1)
        return p, means[mx.array(np.repeat(np.arange(K), counts))]

    def on_device(self, places: IntArray) -> mx.array:
        return mx.array(places)

    def to_host(self, values: mx.array) -> FloatArray:
        return np.array(values)


@functools.cache
def _compiled(formula: Callable[..., Any]) -> Any:
    """Return the formula compiled: a dozen passes over (N, V) arrays become one or two."""
    return mx.compile(partial(formula, mx), shapeless=True)

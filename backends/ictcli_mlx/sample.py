"""Sampling: one prefill a prompt, then its G rollouts decode in lock-step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from ictcli.types import FloatArray, Rollouts, Sampling

from .cache import arrays, new_cache, pad, settle, take
from .memory import Memory
from .stats import StatsRecorder

PREFILL_TOKENS = 8192
"""Prompt tokens of one forward pass, all rows together."""
GONE = 8
"""Ended rows are decoded along, unread, until they are one in so many: taking rows out copies the
whole cache."""


def generate(
    model: Any,
    prompts: Sequence[Sequence[int]],
    group: int,
    sampling: Sampling,
    uniforms: FloatArray,
    wanted: Sequence[str],
    rows_at_once: int,
    memory: Memory,
    *,
    compiled: bool,
) -> Rollouts:
    """`Engine.generate`: whole groups, at most `rows_at_once` rows side by side. `uniforms` (B, T)
    decide every draw."""
    per_pass = max(1, rows_at_once // group)
    parts = []
    for first in range(0, len(prompts), per_pass):
        some = prompts[first : first + per_pass]
        mine = uniforms[first * group : (first + per_pass) * group]
        parts.append(_lockstep(model, some, group, sampling, mine, wanted, memory, compiled))
        memory.free()  # the next pass has caches of other sizes
    lengths = np.concatenate([part[1] for part in parts])
    T = int(lengths.max(initial=1))
    names = ("tokens", "logp", *wanted)
    whole = {name: np.concatenate([part[0][name][:, :T] for part in parts]) for name in names}
    return Rollouts(
        prompts=tuple(tuple(prompt) for prompt in prompts),
        group=group,
        tokens=whole["tokens"],
        lengths=lengths,
        finished=np.concatenate([part[2] for part in parts]),
        logp=whole["logp"],
        stats={name: whole[name] for name in wanted},
    )


def _lockstep(
    model: Any,
    prompts: Sequence[Sequence[int]],
    group: int,
    sampling: Sampling,
    uniforms: FloatArray,
    wanted: Sequence[str],
    memory: Memory,
    compiled: bool,
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Decode all rows of some prompts: arrays (B, T) by name, lengths (B,), finished (B,).

    A lane is a row of the arrays on the device. The pass of token t + 1 is under way while Python
    reads token t and decides who has ended, so the device does not wait for it.
    """
    B, T = len(prompts) * group, sampling.max_tokens
    recorder = StatsRecorder(wanted, B, T, group, compiled)
    tokens = np.zeros((B, T), dtype=np.int32)
    logp = np.zeros((B, T), dtype=np.float32)
    lengths = np.full(B, T, dtype=np.int32)
    finished = np.zeros(B, dtype=bool)
    prefix = np.zeros(B, dtype=np.uint64)  # a hash of each row's tokens so far

    logits, caches = _prefill(model, prompts, group, memory)
    lanes = np.arange(B)  # the row of each lane
    alive = np.ones(B, dtype=bool)  # by lane
    for t in range(T):
        token, token_logp, p = draw(logits, mx.array(uniforms[lanes, t]), sampling)
        mx.async_eval(token, token_logp)  # Python will wait for these two alone
        if t + 1 < T:
            logits = model(token[:, None], cache=caches)[:, -1].astype(mx.float32)
            mx.async_eval(logits)  # runs while Python looks at the tokens
        here = np.flatnonzero(alive)
        rows, drawn = lanes[here], np.array(token)[here]
        tokens[rows, t], logp[rows, t] = drawn, np.array(token_logp)[here]
        whole = len(here) == len(lanes)
        recorder.add(p if whole else p[mx.array(here)], rows, drawn, prefix[rows], t)
        memory.watch(f"Sampling {len(lanes)} rows side by side", "lower engine.rows or max_tokens")
        with np.errstate(over="ignore"):
            step = drawn.astype(np.uint64) + np.uint64(1442695040888963407)
            prefix[rows] = prefix[rows] * np.uint64(6364136223846793005) + step
        ended = np.isin(drawn, sampling.stop_ids)
        lengths[rows[ended]], finished[rows[ended]] = t + 1, True
        alive[here[ended]] = False
        if not alive.any():
            break
        if t + 1 < T and GONE * np.count_nonzero(~alive) >= len(lanes):
            stay = mx.array(np.flatnonzero(alive))
            lanes, logits = lanes[alive], logits[stay]
            take(caches, stay)
            alive = np.ones(len(lanes), dtype=bool)
    return {"tokens": tokens, "logp": logp, **recorder.arrays()}, lengths, finished


def _prefill(
    model: Any, prompts: Sequence[Sequence[int]], group: int, memory: Memory
) -> tuple[mx.array, list[Any]]:
    """Run each prompt once and repeat its caches for its rows: logits (B, V) of the next token.

    All but the last token of each prompt, padded on the right, in chunks; the last tokens make one
    step of decoding, so the LM head meets nothing else.
    """
    before = [len(prompt) - 1 for prompt in prompts]
    caches = new_cache(model, before)
    longest = max(before)
    padded = min(before) < longest
    if padded:
        pad(caches, before)
    ids = np.zeros((len(prompts), longest), dtype=np.int32)
    for row, prompt in enumerate(prompts):
        ids[row, : before[row]] = prompt[:-1]
    chunk = max(PREFILL_TOKENS // len(prompts), 1)
    for first in range(0, longest, chunk):
        model(mx.array(ids[:, first : first + chunk]), cache=caches)  # its logits are never made
        mx.eval(arrays(caches))  # bounds memory: one chunk's activations at a time
        memory.watch("Reading the prompts", "lower engine.rows or prompts, or shorten the prompts")
    if padded:
        settle(caches)
    last = mx.array([[prompt[-1]] for prompt in prompts])
    logits = model(last, cache=caches)[:, -1].astype(mx.float32)
    rows = mx.array(np.repeat(np.arange(len(prompts)), group))
    take(caches, rows)
    return logits[rows], caches


def draw(
    logits: mx.array, uniform: mx.array, sampling: Sampling
) -> tuple[mx.array, mx.array, mx.array]:
    """Draw one token a row by inverting the CDF at `uniform` (R,): tokens (R,), their log p (R,),
    and p (R, V) at temperature 1.

    One number decides a row, whatever rows stand beside it. log p is of softmax(L / temperature)
    before top-p and top-k, which is what an update evaluates.
    """
    if sampling.temperature == 0:
        token = mx.argmax(logits, axis=-1)
        picked = mx.take_along_axis(logits, token[:, None], axis=-1)[:, 0]
        return token, picked - mx.logsumexp(logits, axis=-1), mx.softmax(logits, axis=-1)
    scaled = logits if sampling.temperature == 1 else logits / sampling.temperature
    scaled = scaled - scaled.max(axis=-1, keepdims=True)
    weight = mx.exp(scaled)  # softmax before its division
    total = weight.sum(axis=-1, keepdims=True)
    tempered = weight / total
    cut = weight
    if sampling.top_k or sampling.top_p < 1:
        cut = mx.where(_nucleus(tempered, sampling), weight, 0.0)
    cdf = mx.cumsum(cut, axis=-1)
    target = mx.minimum(uniform, 1 - 2**-23)[:, None] * cdf[:, -1:]
    token = mx.minimum((cdf <= target).sum(axis=-1), logits.shape[-1] - 1)
    if cut is not weight:  # a parallel cumsum may fall by a rounding, and a cut token be drawn
        drawn = mx.take_along_axis(cut, token[:, None], axis=-1)[:, 0]
        token = mx.where(drawn > 0, token, mx.argmax(cut, axis=-1))
    logp = mx.take_along_axis(scaled, token[:, None], axis=-1)[:, 0] - mx.log(total[:, 0])
    plain = sampling.temperature == 1
    return token, logp, tempered if plain else mx.softmax(logits, axis=-1)


def _nucleus(p: mx.array, sampling: Sampling) -> mx.array:
    """(R, V) mask of the top-k and of the smallest set whose mass reaches top-p."""
    order = mx.argsort(-p, axis=-1)
    ordered = mx.take_along_axis(p, order, axis=-1)
    keep = (mx.cumsum(ordered, axis=-1) - ordered) < sampling.top_p
    if sampling.top_k:
        keep = keep & (mx.arange(p.shape[-1]) < sampling.top_k)
    return mx.take_along_axis(keep, mx.argsort(order, axis=-1), axis=-1)

"""Sampling: one prefill a prompt, then its G rollouts decode in lock-step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from ictcli.errors import RunFailedError
from ictcli.types import FloatArray, Rollouts, Sampling

from .cache import arrays, new_cache, pad, settle, take
from .files import number
from .memory import Memory
from .stats import StatsRecorder

PREFILL_TOKENS = 8192
"""Prompt tokens of one forward pass, all rows together."""
GONE = 8
"""Ended rows are decoded along, unread, until they are one in so many: taking rows out copies the
whole cache."""


MIXED_TOLERANCE = 0.05
"""Of the logits' range: beyond what 16 bits round, well below what a wrong mask does."""
MULTIPLIER, INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)


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
    mixed: bool,
    compiled: bool,
) -> Rollouts:
    """`Engine.generate`: whole groups, at most `rows_at_once` rows side by side. `uniforms` (B, T)
    decide every draw; `mixed` says whether the model takes prompts of several lengths at once."""
    per_pass = max(1, rows_at_once // group)
    parts: list[tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]] = []
    order: list[int] = []
    for part in _passes([len(prompt) for prompt in prompts], per_pass, mixed=mixed):
        rows = np.add.outer(np.array(part) * group, np.arange(group)).reshape(-1)
        some = [prompts[i] for i in part]
        parts.append(
            _lockstep(model, some, group, sampling, uniforms[rows], wanted, memory, compiled)
        )
        memory.free()  # the next pass has caches of other sizes
        order.extend(rows.tolist())
    back = np.argsort(order)
    lengths = np.concatenate([part[1] for part in parts])[back]
    T = int(lengths.max(initial=1))
    names = ("tokens", "logp", *wanted)
    whole = {name: np.concatenate([part[0][name][:, :T] for part in parts])[back] for name in names}
    return Rollouts(
        prompts=tuple(tuple(prompt) for prompt in prompts),
        group=group,
        tokens=whole["tokens"],
        lengths=lengths,
        finished=np.concatenate([part[2] for part in parts])[back],
        logp=whole["logp"],
        stats={name: whole[name] for name in wanted},
    )


def _passes(lengths: Sequence[int], per_pass: int, *, mixed: bool) -> list[list[int]]:
    """Which prompts are decoded side by side: neighbours, or those of one length."""
    found: list[list[int]] = []
    for i in range(len(lengths)) if mixed else np.argsort(lengths, kind="stable").tolist():
        fits = found and len(found[-1]) < per_pass
        if fits and (mixed or lengths[found[-1][0]] == lengths[i]):
            found[-1].append(i)
        else:
            found.append([i])
    return found


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

    A lane is a row of the arrays on the device. Token t + 1 is under way while Python reads token t
    and decides who has ended, so the device does not wait for it.
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
    made = slice(3 if wanted else 2)  # without p, or with what it is made of
    drawn = draw(logits, mx.array(uniforms[:, 0]), sampling)[made]
    mx.async_eval(drawn)  # the first token
    for t in range(T):
        now = drawn
        if t + 1 < T:
            logits = model(now[0][:, None], cache=caches)[:, -1].astype(mx.float32)
            drawn = draw(logits, mx.array(uniforms[lanes, t + 1]), sampling)[made]
            mx.async_eval(drawn)  # the next token, while Python looks at this one
        here = np.flatnonzero(alive)
        rows, token = lanes[here], np.array(now[0])[here]
        tokens[rows, t], logp[rows, t] = token, np.array(now[1])[here]
        if wanted:
            p = now[2] if len(here) == len(lanes) else now[2][mx.array(here)]
            recorder.add(p, rows, token, prefix[rows], t)
        memory.watch(f"Sampling {len(lanes)} rows side by side", "lower engine.rows or max_tokens")
        prefix[rows] = prefix[rows] * MULTIPLIER + (token.astype(np.uint64) + INCREMENT)
        ended = np.isin(token, sampling.stop_ids)
        lengths[rows[ended]], finished[rows[ended]] = t + 1, True
        alive[here[ended]] = False
        if not alive.any():
            break
        if t + 1 < T and GONE * np.count_nonzero(~alive) >= len(lanes):
            stay = mx.array(np.flatnonzero(alive))
            drawn = tuple(x[stay] for x in drawn)
            take(caches, stay)
            lanes, alive = lanes[alive], alive[alive]
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
    chunk = max(PREFILL_TOKENS // len(prompts), 2)
    if padded:
        longest += longest % chunk == 1  # a window's cache takes a lone token for a decoded one
        pad(caches, before, longest)
    ids = np.zeros((len(prompts), longest), dtype=np.int32)
    for row, prompt in enumerate(prompts):
        ids[row, : before[row]] = prompt[:-1]
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


def draw(logits: mx.array, uniform: mx.array, sampling: Sampling) -> tuple[mx.array, ...]:
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
    on_gpu = mx.default_device().type == mx.gpu
    if cut is not weight or on_gpu:  # a parallel cumsum may fall by a rounding: no weight, no draw
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
    return mx.put_along_axis(mx.zeros(p.shape, dtype=mx.bool_), order, keep, axis=-1)


def takes_mixed_lengths(model: Any, vocabulary: int, memory: Memory) -> bool:
    """Whether the model decodes prompts of several lengths side by side as it does each alone.

    Some of mlx-lm's models do not look at the padding of their batched caches: they raise, or give
    wrong numbers without a word. A few made-up tokens tell, once for a model.
    """
    tokens = [1 + i % (vocabulary - 1) for i in range(9)]
    prompts = [tokens[:length] for length in (7, 2, 9, 4, 1)]
    try:
        together, _ = _prefill(model, prompts, 1, memory)
        alone = mx.concatenate([_prefill(model, [p], 1, memory)[0] for p in prompts])
        gap, spread = mx.abs(together - alone).max(), alone.max() - alone.min()
        return number(gap / spread) < MIXED_TOLERANCE
    except RunFailedError:  # the memory's limit
        raise
    except Exception:  # whatever a model that does not know padding makes of it
        return False

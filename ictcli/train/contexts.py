"""Uniqueness against like contexts: rollouts are compared where they wrote the same, not where they
stand at the same position.

Ours: the ICT paper compares rollouts position by position, and once they have drifted apart in
length the same position is another context. `context:k` takes the mean over every token of the
group, of any rollout and position, with the same k response tokens before it; near the beginning,
with the same whole beginning. A token with no like context but its own has u = 0, and so has one
whose like contexts all share its whole prefix.

Sampling drops its logits step by step, so this takes a pass over the responses of each group in
which a context recurs.
"""

from collections.abc import Iterator

import numpy as np

from ictcli.algorithm.quantities import js
from ictcli.engine import Engine
from ictcli.train.distributions import distributions, divergences, pieces, room_of
from ictcli.types import BoolArray, FloatArray, IntArray, Rollouts

START = -1
"""Stands for the places before a response's first token."""


def context_uniqueness(engine: Engine, rollouts: Rollouts, k: int) -> FloatArray:
    """(B, T) float32 u against the mean of like contexts of k tokens, in nats; 0 behind ends."""
    u, room = np.zeros(rollouts.tokens.shape, dtype=np.float32), room_of(engine)
    for prompt in range(len(rollouts.prompts)):
        group = rollouts.groups(prompt, prompt + 1)
        found = u[prompt * rollouts.group :][: rollouts.group, : group.tokens.shape[1]]
        contexts = like_contexts(group.tokens, group.valid, k)
        for where in _parts(contexts, room):
            if where.sum() <= room:
                p = distributions(engine, group, where)
                found[where] = js_of_contexts(p, contexts[where])
                continue
            # One context with more tokens: it is read for its mean, and again to compare.
            total = sum(
                distributions(engine, group, some).sum(axis=0, dtype=np.float64)
                for some in pieces(where, room)
            )
            mean = np.asarray(total / where.sum())[None]
            for some in pieces(where, room):
                p = distributions(engine, group, some)
                found[some] = divergences(js, p, mean, np.zeros(len(p), dtype=np.int64))
    return u


def like_contexts(tokens: IntArray, valid: BoolArray, k: int) -> IntArray:
    """(G, T): a number for each context of k tokens that recurs after two different prefixes; -1
    for other tokens, and behind ends."""
    padded = np.pad(tokens, ((0, 0), (k, 0)), constant_values=START)
    windows = np.lib.stride_tricks.sliding_window_view(padded, k, axis=1)[:, : tokens.shape[1]]
    rows, positions = np.nonzero(valid)
    _, context = np.unique(windows[rows, positions], axis=0, return_inverse=True)
    context = context.reshape(-1)
    prefixes: list[set[bytes]] = [set() for _ in range(int(context.max(initial=-1)) + 1)]
    for row, position, number in zip(rows, positions, context, strict=True):
        prefixes[number].add(tokens[row, :position].tobytes())
    recurs = np.array([len(each) > 1 for each in prefixes], dtype=bool)
    found = np.full(tokens.shape, -1)
    found[rows, positions] = np.where(recurs[context], context, -1)
    return found


def js_of_contexts(p: FloatArray, contexts: IntArray) -> FloatArray:
    """(N,) JS of each distribution p (N, V) and the mean over those of its context (N,)."""
    _, number, counts = np.unique(contexts, return_inverse=True, return_counts=True)
    order = np.argsort(number, kind="stable")
    starts = np.cumsum(counts) - counts
    mean = np.add.reduceat(p[order], starts, axis=0, dtype=np.float64) / counts[:, None]
    return divergences(js, p, mean, number)


def _parts(contexts: IntArray, room: int) -> Iterator[BoolArray]:
    """Masks of whole contexts that together hold every recurring one, `room` tokens or one context
    each."""
    numbers, counts = np.unique(contexts[contexts >= 0], return_counts=True)
    first = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or counts[first : end + 1].sum() > room:
            yield np.isin(contexts, numbers[first:end])
            first = end

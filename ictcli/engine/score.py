"""Statistics of given rollouts, by passes of the model.

A mean over like contexts compares rollouts where they wrote the same, not where they stand at the
same position. Ours: the ICT paper compares them position by position, and once they have drifted
apart in length the same position is another context. `context:K` takes the mean over every token
of the group, of any rollout and position, with the same K response tokens before it; near the
beginning, with the same whole beginning. A token with no like context but its own has 0, and so has
one whose like contexts all share its whole prefix.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ictcli.algorithm.objective import token_logp
from ictcli.algorithm.quantities import Statistic, statistic
from ictcli.engine.packing import chunks
from ictcli.types import LOGP, BoolArray, FloatArray, IntArray, Rollouts

HELD, COMPARED = 1 << 26, 1 << 22
"""Logits that one pass may give (256 MB): those of a large vocabulary at all tokens would fill the
memory. And those whose statistics are taken in float64 at once."""
START = -1
"""Stands for the places before a response's first token."""

Logits = Callable[[Rollouts, BoolArray], FloatArray]
"""`Engine.logits`."""
Part = tuple[BoolArray, FloatArray, FloatArray, IntArray]
"""N tokens (B, T), their p (N, V), and q and row (N,) where q[row] is what they compare with."""


def measure(
    engine: Any, rollouts: Rollouts, where: BoolArray, wanted: Sequence[str], temperature: float
) -> FloatArray:
    """(B, T, n) float32: log-probabilities at `temperature`, and statistics that compare nothing,
    where `where` (B, T) is True."""
    xp = engine.passes.xp

    def of(logits: Any, tokens: Any) -> Any:
        values = [
            token_logp(xp, logits, tokens, temperature)
            if name == LOGP
            else statistic(name).at(xp, xp.softmax(logits, axis=-1), tokens)
            for name in wanted
        ]
        return xp.stack(values).T

    values = np.zeros((*rollouts.tokens.shape, len(wanted)), dtype=np.float32)
    for batch in engine.micro_batches(rollouts, where) if wanted else ():
        values[batch.rows, batch.positions] = engine.passes.evaluate(batch, of)
    return values


def compare(
    logits: Logits,
    vocabulary: int,
    rollouts: Rollouts,
    wanted: Sequence[str],
    solution: IntArray | None = None,
) -> dict[str, FloatArray]:
    """`Engine.score` of what compares p with another distribution."""
    found = {name: np.zeros(rollouts.tokens.shape, dtype=np.float32) for name in wanted}
    room = max(HELD // vocabulary, 1)
    for name, values in found.items():
        each = statistic(name)
        if each.kind == "solution":
            assert solution is not None, f"{name} needs to know the correct responses"
            parts = _after_solutions(logits, room, rollouts, solution)
        else:
            parts = _against_means(logits, room, rollouts, each)
        for where, p, q, row in parts:
            values[where] = _values(each, p, q, row)
    return found


def _values(each: Statistic, p: FloatArray, q: FloatArray, row: IntArray) -> FloatArray:
    """(N,) in float64, part by part; never below 0."""
    found = np.empty(len(p))
    for some in chunks(len(p), max(COMPARED // p.shape[1], 1)):
        found[some] = each(np, *(x.astype(np.float64) for x in (p[some], q[row[some]])))
    return np.maximum(found, 0.0)


def _distributions(logits: Logits, rollouts: Rollouts, where: BoolArray) -> FloatArray:
    values = logits(rollouts, where)
    p = np.exp(values - values.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return p


def _pieces(where: BoolArray, room: int) -> Iterator[BoolArray]:
    """Masks of at most `room` tokens each, row by row, that together are `where` (B, T)."""
    number = np.cumsum(where).reshape(where.shape) - 1
    for first in range(0, int(where.sum()), room):
        yield where & (first <= number) & (number < first + room)


def like_contexts(tokens: IntArray, valid: BoolArray, group: int, K: int | None) -> IntArray:
    """(B, T): a number for each context of K tokens, None: each position, that recurs in a group
    after two different prefixes; -1 for other tokens, and after ends."""
    rows, positions = np.nonzero(valid)
    alike = positions[:, None]
    if K is not None:
        padded = np.pad(tokens, ((0, 0), (K, 0)), constant_values=START)
        alike = np.lib.stride_tricks.sliding_window_view(padded, K, axis=1)[rows, positions]
    of_group = np.column_stack([rows // group, alike])
    _, context = np.unique(of_group, axis=0, return_inverse=True)
    context = context.reshape(-1)
    prefixes: list[set[bytes]] = [set() for _ in range(int(context.max(initial=-1)) + 1)]
    for row, position, number in zip(rows, positions, context, strict=True):
        prefixes[number].add(tokens[row, :position].tobytes())
    recurs = np.array([len(each) > 1 for each in prefixes], dtype=bool)
    found = np.full(tokens.shape, -1)
    found[rows, positions] = np.where(recurs[context], context, -1)
    return found


def _against_means(
    logits: Logits, room: int, rollouts: Rollouts, each: Statistic
) -> Iterator[Part]:
    """Tokens with the mean of their context or position, whole ones of one group at a time."""
    G, K = rollouts.group, int(each.number or 0) if each.kind == "context" else None
    contexts = like_contexts(rollouts.tokens, rollouts.valid, G, K)
    group = np.arange(len(rollouts))[:, None] // G
    for n in range(len(rollouts.prompts)):
        for where in _whole_contexts(np.where(group == n, contexts, -1), room):
            if where.sum() <= room:
                p = _distributions(logits, rollouts, where)
                yield where, p, *context_means(p, contexts[where])
            else:
                yield from _against_one_mean(logits, room, rollouts, where)


def _against_one_mean(
    logits: Logits, room: int, rollouts: Rollouts, where: BoolArray
) -> Iterator[Part]:
    """One context with more tokens than there is room for: read for its mean, and again."""
    total = sum(
        _distributions(logits, rollouts, some).sum(axis=0, dtype=np.float64)
        for some in _pieces(where, room)
    )
    mean = np.asarray(total / where.sum())[None]
    for some in _pieces(where, room):
        p = _distributions(logits, rollouts, some)
        yield some, p, mean, np.zeros(len(p), dtype=np.int64)


def context_means(p: FloatArray, contexts: IntArray) -> tuple[FloatArray, IntArray]:
    """The mean of p (N, V) over each context (N,), float64, and which of them is each token's."""
    _, number, counts = np.unique(contexts, return_inverse=True, return_counts=True)
    order = np.argsort(number, kind="stable")
    starts = np.cumsum(counts) - counts
    return np.add.reduceat(p[order], starts, axis=0, dtype=np.float64) / counts[:, None], number


def _whole_contexts(contexts: IntArray, room: int) -> Iterator[BoolArray]:
    """Masks of whole contexts that together hold every recurring one, `room` tokens or one context
    each."""
    numbers, counts = np.unique(contexts[contexts >= 0], return_counts=True)
    first = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or counts[first : end + 1].sum() > room:
            yield np.isin(contexts, numbers[first:end])
            first = end


def _after_solutions(
    logits: Logits, room: int, rollouts: Rollouts, solution: IntArray
) -> Iterator[Part]:
    """Tokens with their p after the prompt, the response of the row `solution` (B,) and the prompt
    again; none of rows where that is -1."""
    rows = np.flatnonzero(solution >= 0)
    alone = [rollouts.prompt_of(int(row)) for row in rows]
    after = [
        (*prompt, *rollouts.tokens[row, : rollouts.lengths[row]].tolist(), *prompt)
        for prompt, row in zip(alone, solution[rows], strict=True)
    ]
    student, teacher = (rollouts.take(rows, prompts, 1) for prompts in (alone, after))
    for some in _pieces(student.valid, room):
        p, q = (_distributions(logits, read, some) for read in (student, teacher))
        where = np.zeros(rollouts.tokens.shape, dtype=bool)
        where[rows, : some.shape[1]] = some
        yield where, p, q, np.arange(len(p))

"""Packing rollouts into forward passes.

Wanted tokens are those whose logits are needed. Each row is cut after its last wanted token, and
the LM head computes only wanted tokens. A prompt that rows share is computed once if this saves
enough; its keys and values are repeated. Padding is on the right, where a causal mask hides it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ictcli.types import BoolArray, FloatArray, IntArray, Rollouts

CHUNK_LOGITS = 1 << 25
"""Maximum number of logits that the LM head computes at once (128 MB in float32)."""
SPARED = 0.2
"""Minimum share of tokens that sharing prompts must save, as sharing calls the model twice."""


@dataclass(frozen=True)
class MicroBatch:
    """The rows of one pass, each cut after its last wanted token.

    Without `shared`, `ids` are prompts with responses, and each id has a hidden state. With
    `shared`, `ids` are responses only, and a row's states start at its prompt's last token."""

    ids: IntArray
    """(R, S) int32, right-padded with 0."""
    head: BoolArray
    """True for states that predict a wanted token: (R, S), or (R, 1 + S) with `shared`."""
    rows: IntArray
    positions: IntArray
    """(N,) each: row and response position of the N wanted tokens, in the order of `head`."""
    targets: IntArray
    """(N,) int32: ids of the wanted tokens."""
    shared: "Prompts | None" = None

    @property
    def tokens(self) -> int:
        """Number of tokens that go through the model, padding included."""
        return self.ids.size + (self.shared.ids.size if self.shared else 0)

    def take(self, values: FloatArray) -> FloatArray:
        """Return the values (B, T) at the wanted tokens: (N,) float32."""
        return values[self.rows, self.positions].astype(np.float32)

    def row_means(self, values: FloatArray) -> FloatArray:
        """Return (N,) float32: for each wanted token the mean of values (N,) over its row."""
        sums, counts = np.bincount(self.rows, values), np.bincount(self.rows)
        return (sums[self.rows] / counts[self.rows]).astype(np.float32)


@dataclass(frozen=True)
class Prompts:
    """The prompts that the rows of a pass share."""

    ids: IntArray
    """(Q, P) int32, right-padded with 0."""
    lengths: IntArray
    """(Q,): number of tokens of each prompt."""
    of_row: IntArray
    """(R,): index of each row's prompt."""


def micro_batches(
    rollouts: Rollouts, wanted: BoolArray, budget: int, *, joined: int = 0, share: bool = True
) -> Iterator[MicroBatch]:
    """Pack the rows that have a wanted token (B, T), longest first, into passes of one row or at
    most `budget` tokens. If `joined` is not 0, it limits passes over several prompts instead.
    `share`: whether the engine can compute a prompt once for several rows."""
    lengths = np.array([len(prompt) for prompt in rollouts.prompts], dtype=np.int64)
    ends = wanted.shape[1] - wanted[:, ::-1].argmax(axis=1)
    rows, G = np.flatnonzero(wanted.any(axis=1)), rollouts.group
    spared = lengths[rows // G].sum() - lengths[np.unique(rows // G)].sum()
    share = share and is_worth_sharing(spared, (lengths[rows // G] + ends[rows]).sum())

    def tokens(members: Sequence[int]) -> int:
        prompts = np.array(members) // G
        if not share:
            return int(len(members) * (lengths[prompts] + ends[members]).max())
        prompts = np.unique(prompts)
        return int(len(prompts) * lengths[prompts].max() + len(members) * ends[members].max())

    units = [[int(row)] for row in rows]
    if share:
        units = list[list[int]]()
        for prompt in np.unique(rows // G):
            group = sorted((int(r) for r in rows if r // G == prompt), key=lambda r: -ends[r])
            units += _runs(group, ends[group], int(lengths[prompt]), budget)
    joined = min(budget, joined or budget)
    units.sort(key=lambda unit: -int(lengths[unit[0] // G] + ends[unit[0]]))
    batch: list[int] = []
    for unit in units:
        if batch and tokens(batch + unit) > joined:
            yield _pack(rollouts, batch, wanted, ends, share=share)
            batch = []
        batch = batch + unit
    if batch:
        yield _pack(rollouts, batch, wanted, ends, share=share)


def is_worth_sharing(spared: float, tokens: float) -> bool:
    """Return whether sharing prompts saves enough: `spared` of all `tokens`."""
    return spared >= SPARED * tokens


def _runs(rows: list[int], ends: IntArray, prompt: int, budget: int) -> list[list[int]]:
    """Split a group's rows, longest first, into parts that each share the prompt, with the fewest
    tokens in all: a part of n rows has the prompt once, and n times its first row's length."""
    best, cut = [0] + [0] * len(rows), [0] * (len(rows) + 1)
    for last in range(1, len(rows) + 1):
        costs = {
            first: best[first] + prompt + (last - first) * int(ends[first])
            for first in range(last)
            if last - first == 1 or prompt + (last - first) * ends[first] <= budget
        }
        cut[last] = min(costs, key=lambda first: costs[first])
        best[last] = costs[cut[last]]
    runs, last = list[list[int]](), len(rows)
    while last:
        runs.append(rows[cut[last] : last])
        last = cut[last]
    return runs


def _pack(
    rollouts: Rollouts, batch: list[int], wanted: BoolArray, ends: IntArray, *, share: bool
) -> MicroBatch:
    numbers = sorted({row // rollouts.group for row in batch})
    shared = None
    if share and len(numbers) < len(batch):
        prompts = [rollouts.prompts[number] for number in numbers]
        of_row = np.searchsorted(numbers, [row // rollouts.group for row in batch])
        lengths = np.array([len(prompt) for prompt in prompts])
        shared = Prompts(_padded(prompts), lengths, of_row)
    texts, head = list[IntArray](), list[BoolArray]()
    for row in batch:
        prompt = rollouts.prompt_of(row)
        if shared:  # the last wanted token is not needed as input
            texts.append(rollouts.tokens[row, : max(ends[row] - 1, 1)])
            head.append(wanted[row, : ends[row]])
        else:
            texts.append(np.concatenate([prompt, rollouts.tokens[row, : ends[row]]]))
            head.append(np.concatenate([np.zeros(len(prompt) - 1, bool), wanted[row, : ends[row]]]))
    ids = _padded(texts)
    places = [np.flatnonzero(wanted[row]) for row in batch]
    rows, positions = np.repeat(batch, [len(p) for p in places]), np.concatenate(places)
    targets = rollouts.tokens[rows, positions].astype(np.int32)
    width = ids.shape[1] + (1 if shared else 0)
    return MicroBatch(ids, _padded(head, width, np.bool_), rows, positions, targets, shared)


def _padded(
    rows: Sequence[Sequence[int] | np.ndarray], width: int = 0, dtype: Any = np.int32
) -> Any:
    """Return rows as one array, padded with 0 to `width`, or to the longest row if `width` is 0."""
    array = np.zeros((len(rows), width or max(map(len, rows))), dtype=dtype)
    for i, row in enumerate(rows):
        array[i, : len(row)] = row
    return array


def chunks(n: int, size: int) -> list[slice]:
    """Return slices that cut n states into chunks of `size`, for the LM head."""
    return [slice(first, first + size) for first in range(0, n, size)]


def bucket(n: int, per_octave: int = 4) -> int:
    """Round n up to one of `per_octave` sizes per power of two, so that few shapes are traced."""
    step = max((1 << (n.bit_length() - 1)) // per_octave, 1)
    return -(-n // step) * step

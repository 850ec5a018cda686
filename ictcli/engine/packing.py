"""Packing rollouts into forward passes: which rows run together, how far, and what meets the head.

Sequences are prompt + response, padded on the right: under a causal mask padding changes nothing
before it, so no mask is needed. A row runs only as far as its last wanted token, and only wanted
positions meet the LM head.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ictcli.types import BoolArray, FloatArray, IntArray, Rollouts

MAX_LOGITS = 1 << 27
"""Logits of a pass at most (512 MB in float32), whatever the token budget allows. A row that wants
more runs several times."""


@dataclass(frozen=True)
class MicroBatch:
    """Some rows, cut behind their last wanted token. S is the longest prompt + response."""

    ids: IntArray
    """(R, S) int32, right-padded with 0."""
    head: BoolArray
    """(R, S): where a wanted token is predicted, one place before it."""
    rows: IntArray
    positions: IntArray
    """(N,) each: row and response position of the N wanted tokens, in the order of `head`."""
    targets: IntArray
    """(N,) int32: the tokens themselves."""

    def take(self, values: FloatArray) -> FloatArray:
        """(N,) float32 of (B, T) values at the wanted tokens."""
        return values[self.rows, self.positions].astype(np.float32)


def micro_batches(
    rollouts: Rollouts, wanted: BoolArray, budget: int, vocabulary: int, most_rows: int = 0
) -> Iterator[MicroBatch]:
    """Pack the rows that have a wanted token (B, T), longest first, into passes of `budget` tokens
    and, unless 0, `most_rows` rows at most (one row at least)."""
    prompt_lengths = np.repeat([len(p) for p in rollouts.prompts], rollouts.group)
    limit = max(MAX_LOGITS // vocabulary, 1)
    pieces = [piece for row in range(len(wanted)) for piece in _pieces(row, wanted[row], limit)]
    pieces.sort(key=lambda piece: -int(prompt_lengths[piece[0]] + piece[1][-1]))
    first = 0
    while first < len(pieces):
        row, places = pieces[first]
        last, longest, logits = first + 1, prompt_lengths[row] + places[-1] + 1, len(places)
        most = max(min(budget // longest, most_rows or len(pieces)), 1)
        while last < min(first + most, len(pieces)):
            logits += len(pieces[last][1])
            if logits > limit:
                break
            last += 1
        yield _pack(rollouts, pieces[first:last], int(longest), prompt_lengths)
        first = last


Piece = tuple[int, IntArray]
"""A row, and response positions wanted of it, ascending."""


def _pieces(row: int, wanted: BoolArray, limit: int) -> Iterator[Piece]:
    """A row's wanted places, at most `limit` at a time: what remains runs once more."""
    places = np.flatnonzero(wanted)
    for first in range(0, len(places), limit):
        yield row, places[first : first + limit]


def _pack(rollouts: Rollouts, pieces: list[Piece], S: int, prompt_lengths: IntArray) -> MicroBatch:
    ids = np.zeros((len(pieces), S), dtype=np.int32)
    head = np.zeros((len(pieces), S), dtype=np.bool_)
    for i, (row, places) in enumerate(pieces):
        prompt, begin = rollouts.prompt_of(row), int(prompt_lengths[row])
        response = rollouts.tokens[row, : S - begin]
        ids[i, :begin] = prompt
        ids[i, begin : begin + len(response)] = response
        head[i, begin + places - 1] = True
    rows = np.repeat([row for row, _ in pieces], [len(places) for _, places in pieces])
    positions = np.concatenate([places for _, places in pieces])
    targets = rollouts.tokens[rows, positions].astype(np.int32)
    return MicroBatch(ids, head, rows, positions, targets)


def bucket(n: int, per_octave: int = 4) -> int:
    """The next size up of those that are traced: so many from a power of two to the next."""
    step = max((1 << (n.bit_length() - 1)) // per_octave, 1)
    return -(-n // step) * step

"""Controls: the token weights of a method are given to tokens drawn at random.

What a method gains over its control comes from its choice of tokens, not from their number, their
weights or their positions. A control shuffles the weights w within sets of tokens:

| control | set | what stays the same |
|---|---|---|
| permuted | a response | the weights in each response |
| position | all tokens at one place, where A > 0 or where A < 0 | the weights at each place |
| mass | all tokens where A > 0, or where A < 0 | the number of weighted tokens |

Then weights are scaled so that the sum of |w A| over responses with A > 0, and over those with A <
0, equals the method's sum. A place is one of n equal parts of a response, where n is the mean
length: a position if all lengths are equal. Ours.

If a method weights all tokens of a response equally (grpo), `permuted` changes nothing.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from ictcli.algorithm.objective import Term
from ictcli.types import BoolArray, FloatArray, IntArray

Control = Literal["none", "permuted", "position", "mass"]
Terms = tuple[Term, ...]


def controlled(
    control: Control,
    weights: FloatArray,
    terms: Terms,
    advantage: FloatArray,
    logp: FloatArray,
    valid: BoolArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, Terms]:
    """Return the weights (B, T) and the terms of the loss, moved to the tokens that the control
    draws.

    `logp` (B, T) is the sampler's. For a term's target, the difference from `logp` is moved."""
    if control == "none":
        return weights, terms
    sets = sets_of(control, valid, advantage)
    order = np.argsort(sets, kind="stable")
    drawn = np.lexsort((rng.random(len(sets)), sets))  # the same order of sets, random within each
    source = np.empty_like(order)
    source[order] = drawn

    def moved(values: FloatArray) -> FloatArray:
        result = np.zeros_like(values)
        result[valid] = values[valid][source]
        return result

    shuffled = moved(weights)
    for sign in (1, -1):
        rows = np.sign(advantage) == sign
        before, after = (np.abs(w[rows] * advantage[rows, None]).sum() for w in (weights, shuffled))
        shuffled[rows] *= before / after if after else 1.0
    return shuffled, tuple(
        replace(
            term,
            coefficient=moved(term.coefficient),
            target=None if term.target is None else logp + moved(term.target - logp),
        )
        for term in terms
    )


def sets_of(control: Control, valid: BoolArray, advantage: FloatArray) -> IntArray:
    """Return, for each valid token row by row, the number of the set that it is shuffled in."""
    rows, positions = np.nonzero(valid)
    if control == "permuted":
        return rows
    sign = np.sign(advantage).astype(np.int64)[rows] + 1
    if control == "mass":
        return sign
    lengths = valid.sum(axis=1)
    places = max(round(float(lengths.mean())), 1)
    return sign * places + positions * places // lengths[rows]

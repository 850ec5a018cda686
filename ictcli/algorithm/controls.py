"""Controls of a method: the weights that it gives its tokens go to other tokens, drawn at random.

What a method gains over its control is due to which tokens it trains, and not to how many, to how
much or to where. Each shuffles the weights w within sets of tokens:

| control | a set is | so it keeps |
|---|---|---|
| permuted | a response | all that the response's tokens weigh |
| position | the tokens at one place of all responses with A > 0, or with A < 0 | the share at it |
| mass | all tokens of responses with A > 0, or with A < 0 | their number alone |

The sum of |w A| over responses with A > 0, and over those with A < 0, is the method's: the last two
scale weights to it. A place is one of as many equal parts of a response as responses have tokens on
average; where all are as long as each other, a position. Ours.

A method that weighs all tokens of a response alike (grpo) is its own permuted control.
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
    """Return the weights (B, T) and terms of the loss, given to the tokens that the control draws.

    `logp` (B, T) is the sampler's: a term's target moves as its distance from it.
    """
    if control == "none":
        return weights, terms
    sets = sets_of(control, valid, advantage)
    order = np.argsort(sets, kind="stable")
    drawn = np.lexsort((rng.random(len(sets)), sets))  # the same sets, each in random order
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
    """Return the number of the set of each valid token, row by row."""
    rows, positions = np.nonzero(valid)
    if control == "permuted":
        return rows
    sign = np.sign(advantage).astype(np.int64)[rows] + 1
    if control == "mass":
        return sign
    lengths = valid.sum(axis=1)
    places = max(round(float(lengths.mean())), 1)
    return sign * places + positions * places // lengths[rows]

"""Methods of other papers that train every token, each by an advantage of its own.

A plugin: plugins = ["credit.py"] in a recipe of this folder. Token advantages A_t are weights
A_t / A; a response with A = 0 has none.
"""

from typing import Literal

import numpy as np
from pydantic import Field

from ictcli.algorithm.methods import Choice, Options, Scored, register
from ictcli.types import FloatArray, IntArray


@register("arXiv 2509.18314", normalisation="tokens")
def tempo(batch: Scored, options: Options) -> Choice:
    """Every token, by A + V(after it) - V(before it), V the mean A of all that share a prefix.

    V(s) of the paper is the mean reward of the group's responses that begin with s: the difference
    is 0 but where they part. Ours: the standard deviation is GRPO's, of the population.
    """
    B, T = batch.valid.shape
    step = np.zeros((B, T))
    node: IntArray = np.arange(B, dtype=np.int64) // batch.group
    before = np.zeros(B)  # the mean A of a group is 0
    for t in range(T):
        rows = np.flatnonzero(batch.valid[:, t])
        _, child = np.unique(
            np.stack([node[rows], batch.tokens[rows, t]]), axis=1, return_inverse=True
        )
        child = child.reshape(-1)
        value = np.bincount(child, batch.advantage[rows]) / np.maximum(np.bincount(child), 1)
        step[rows, t] = value[child] - before[rows]
        node[rows], before[rows] = child, value[child]
    return Choice(batch.valid, weight=_relative(batch, batch.advantage[:, None] + step))


class EapoOptions(Options):
    alpha: float = Field(default=0.2, ge=0, le=1)
    """How much entropy counts."""
    phi: float = Field(default=2.0, gt=0)
    """Its part of an advantage A is |A| / phi at most."""


@register("arXiv 2604.11056v1, EAPO", options=EapoOptions)
def eapo(batch: Scored, options: EapoOptions) -> Choice:
    """Every token, by A + alpha sign(A) z, z the standardised H1 clipped to |A| / phi.

    Ours, since the texts in reach leave them open: z is taken over the batch, and the mean is
    grpo's.
    """
    H1 = batch.stats["entropy"].astype(np.float64)
    mean, std = H1[batch.valid].mean(), H1[batch.valid].std()
    size = np.abs(batch.advantage)[:, None]
    z = np.clip((H1 - mean) / (std + 1e-6), -size / options.phi, size / options.phi)
    weight = 1 + options.alpha * z / np.where(size > 0, size, 1)
    return Choice(batch.valid, weight=weight)


@register("arXiv 2602.02710", normalisation="tokens", scaled_advantage=False)
def maxrl(batch: Scored, options: Options) -> Choice:
    """Every token, by (r - mean r) / mean r: a group weighs more the rarer its correct responses.

    The paper has rewards of 0 and 1: the mean is the group's share of correct responses. A group
    without any is not trained.
    """
    share: FloatArray = batch.correct.reshape(-1, batch.group).mean(axis=1).repeat(batch.group)
    factor = np.where(share > 0, 1 / np.where(share > 0, share, 1), 0.0)
    return Choice(batch.valid, weight=np.broadcast_to(factor[:, None], batch.valid.shape))


class PepoOptions(Options):
    window: int = Field(default=101, ge=1)
    """W: tokens of the window, of which the token is the middle."""


@register("arXiv 2609.39402, Eq. 6 to 8", options=PepoOptions, normalisation="tokens")
def pepo(batch: Scored, options: PepoOptions) -> Choice:
    """Every token; those of correct responses by exp H1 over its sum in a window around the token.

    The weights of a response have mean 1. Beyond its ends it is mirrored (appendix C.2); ours: time
    and again where it is shorter than the window. Ours, too: the mean is over the batch, where the
    paper's is over a group.
    """
    weight, half = np.ones(batch.valid.shape), options.window // 2
    for row in np.flatnonzero(batch.correct):
        size = np.exp(batch.stats["entropy"][row, batch.valid[row]].astype(np.float64))
        around = np.convolve(np.pad(size, half, "reflect"), np.ones(2 * half + 1), "valid")
        weight[row, batch.valid[row]] = size / around / (size / around).mean()
    return Choice(batch.valid, weight=weight)


class GtpoOptions(Options):
    base: float = Field(default=1.0, ge=0)
    """alpha_1, of the reward that all tokens of a response share."""
    entropy: float = Field(default=0.1, ge=0)
    """alpha_2, of the part that is shared out by entropy."""
    over: Literal["group", "sign"] = "group"
    """Tokens that the mean and the deviation of a sign's rewards are taken of. sign: those of that
    sign alone. group: all, those of the other sign having 0. The texts in reach leave it open."""


@register("arXiv 2508.04349, Eq. 3 to 6", options=GtpoOptions, normalisation="tokens")
def gtpo(batch: Scored, options: GtpoOptions) -> Choice:
    """Every token, by a reward that grows with H1 where correct and, negative, with 1/H1 where not.

    At a position, a part of the reward is shared out among the group's n correct responses that are
    still running by n * H / sum H, and among the others by n * (1/H) / sum (1/H).
    """
    H1 = np.maximum(batch.stats["entropy"].astype(np.float64), 1e-8)
    A = np.zeros(batch.valid.shape)
    for first in range(0, len(A), batch.group):
        rows = slice(first, first + batch.group)
        for sign, score in ((1, H1[rows]), (-1, 1 / H1[rows])):
            side = batch.valid[rows] & (batch.correct[rows] == (sign > 0))[:, None]
            part = np.where(side, score, 0.0)
            share = part * side.sum(axis=0) / np.maximum(part.sum(axis=0), 1e-300)
            reward = np.where(side, sign * (options.base + options.entropy * share), 0.0)
            of = reward[side if options.over == "sign" else batch.valid[rows]]
            if side.any() and of.std() > 1e-6:  # else equal, but for rounding
                A[rows][side] = ((reward - of.mean()) / of.std())[side]
    return Choice(batch.valid, weight=_relative(batch, A))


def _relative(batch: Scored, A: FloatArray) -> FloatArray:
    """(B, T) factors of a response's advantage that make it A (B, T); 1 where it has none."""
    own = batch.advantage[:, None]
    return np.where(own != 0, A / np.where(own != 0, own, 1), 1.0)

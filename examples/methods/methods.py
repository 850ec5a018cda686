"""Methods of other papers, as a plugin: plugins = ["methods.py"] in a recipe beside it.

They choose or weigh tokens by chance, by the sign of A, by surprise, or by how the rollouts that
share a prefix ended. Token advantages A_t that a paper sets outright are weights A_t / A; a
response with A = 0 has none.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from ictcli.algorithm.choosing import FifthOptions
from ictcli.algorithm.methods import Choice, Options, Scored, register
from ictcli.algorithm.objective import Term, k3
from ictcli.algorithm.quantities import STATISTICS, Statistic
from ictcli.algorithm.selection import share_count, top_share
from ictcli.types import BoolArray, FloatArray, IntArray


class NatOptions(Options):
    draw: Literal["prefix", "subset"] = "prefix"
    """prefix: the tokens before a random cut (RPC); subset: each token by itself (URS)."""
    share: float = Field(default=0.5, gt=0, le=1)
    """subset: the probability of a token. prefix: the shortest, as a share of the response."""


@register("arXiv 2603.06619, URS and RPC", options=NatOptions)
def nat(batch: Scored, options: NatOptions) -> Choice:
    """Tokens drawn by chance, with weight 1/p: a random prefix or a random subset.

    p is the probability that a token is drawn, and the mean is over all tokens of its response
    (Horvitz-Thompson), so the expected gradient is grpo's. A pass ends after the last drawn token.
    Ours, since no text in reach gives the law of the cut: uniform from the shortest to the whole.
    """
    lengths: IntArray = batch.valid.sum(axis=1)
    drawn, p = batch.valid.copy(), np.full(batch.valid.shape, options.share)
    if options.draw == "subset":
        drawn[batch.valid] = batch.rng.random(int(lengths.sum())) < options.share
    else:
        position = np.arange(batch.valid.shape[1], dtype=np.int64)[None, :]
        shortest = np.array([share_count(options.share, int(n)) for n in lengths])
        cut = batch.rng.integers(shortest, lengths, endpoint=True)
        drawn &= position < cut[:, None]
        p = (lengths[:, None] - position) / (lengths - shortest + 1)[:, None]
        p = np.where(position < shortest[:, None], 1.0, p)
    return Choice(batch.valid, weight=np.where(drawn, 1 / np.where(drawn, p, 1), 0.0))


@register("arXiv 2608.30632, Eq. 4", options=FifthOptions, normalisation="kept")
def gmts(batch: Scored, options: FifthOptions) -> Choice:
    """The 20 % of tokens with the highest |H1 * A| over the batch; mean over those.

    The paper's factor in front of the gradient is A on policy and without a KL term. Ours: the
    choice is made once a batch, with A alone.
    """
    score = batch.stats["entropy"] * np.abs(batch.advantage)[:, None]
    return Choice(top_share(score, batch.valid, options.keep, scope="batch"))


class RsiOptions(Options):
    low: float = Field(default=0.5, ge=0)
    """Relative surprise below which a token is left out. Ours: no text in reach gives bounds."""
    high: float = Field(default=3.0, gt=0)
    """Relative surprise above which it is. Ours, too."""


@register("arXiv 2606.31575, RSI-S", options=RsiOptions, normalisation="kept")
def rsi(batch: Scored, options: RsiOptions) -> Choice:
    """Tokens whose relative surprise -log pi / H1 lies between two bounds; mean over those.

    Both at temperature 1. Ours: the mean; no text in reach gives it.
    """
    index = _surprise(batch) / (batch.stats["entropy"] + 1e-6)
    return Choice(batch.valid & (index >= options.low) & (index <= options.high))


def _surprise(batch: Scored) -> FloatArray:
    """(B, T) float64: -log pi of the tokens, at temperature 1."""
    return -np.log(np.maximum(batch.stats["prob"].astype(np.float64), 1e-37))


class TacoOptions(Options):
    alpha: float = Field(default=0.01, gt=0)
    """Tokens weigh less where their surprise exceeds the entropy by more than -log alpha nats."""
    strength: float = Field(default=0.9, ge=0, le=1)
    """lambda: the most that a weight falls below 1."""


@register("arXiv 2607.07976", options=TacoOptions, normalisation="tokens")
def taco(batch: Scored, options: TacoOptions) -> Choice:
    """Every token; with A > 0 less, the more its surprise -log pi exceeds the entropy H1.

    The tail risk r = -log pi - H1 + log alpha, where it is above 0, makes the weight
    1 - lambda (1 - exp(-r)). Ours: both are at temperature 1 and taken once a batch, where the
    authors' code takes them anew in each update.
    """
    risk = _surprise(batch) - batch.stats["entropy"] + np.log(options.alpha)
    weight = 1 + options.strength * np.expm1(-np.maximum(risk, 0))
    return Choice(batch.valid, weight=np.where((batch.advantage > 0)[:, None], weight, 1.0))


class StareOptions(Options):
    share: float = Field(default=0.1, gt=0, le=1)
    """Share of the tokens with A > 0, and of those with A < 0, that is reweighted."""
    raise_by: float = Field(default=1.1, gt=0)
    """W: weight of the most surprising tokens with A > 0."""
    lower_by: float = Field(default=1.0, gt=0)
    """M: weight of those with A < 0; 1 is the paper's variant O1, 0.9 its C2."""
    target_entropy: float = Field(default=0.3, ge=0)
    """Mean H1 of the batch, in nats, at which nothing is reweighted any more."""


@register("arXiv 2606.19236, Alg. 1", options=StareOptions, normalisation="tokens")
def stare(batch: Scored, options: StareOptions) -> Choice:
    """Every token; the most surprising with A > 0 weigh more while the mean entropy is low."""
    weight = np.ones(batch.valid.shape)
    if batch.stats["entropy"][batch.valid].mean() < options.target_entropy:
        for sign, factor in ((1, options.raise_by), (-1, options.lower_by)):
            side = batch.valid & (np.sign(batch.advantage) == sign)[:, None]
            top = top_share(-batch.logp, side, options.share, scope="batch", zeros=True)
            weight[top] = factor
    return Choice(batch.valid, weight=weight)


class WapoOptions(Options):
    bins: list[Literal["pos_peak", "pos_valley", "neg_peak", "neg_valley"]] = Field(
        default=["pos_peak", "pos_valley"], min_length=1
    )
    """What is trained, by the sign of A: peak has pi >= beta (purity), valley pi < beta."""


@register("arXiv 2606.16154", options=WapoOptions, normalisation="constant", scaled_advantage=False)
def wapo(batch: Scored, options: WapoOptions) -> Choice:
    """Responses with A > 0 alone, or peak and valley tokens by the sign of A; constant length.

    Advantages without the standard deviation. Its clip of the ratio is the recipe's clip.high.
    Ours: the mean is over all groups, where the authors' code leaves out those without a winner.
    """
    peak = batch.stats["prob"] >= batch.stats["purity"]
    return Choice(_of_bins(batch, {"peak": peak, "valley": ~peak}, options.bins))


class QuadrantOptions(Options):
    share: float = Field(default=0.2, gt=0, le=1)
    """Share of the batch's tokens that have a high entropy. Ours: as in entropy20."""
    bins: list[Literal["pos_high", "pos_low", "neg_high", "neg_low"]] = Field(
        default=["pos_high", "neg_high"], min_length=1
    )
    """What is trained, by the sign of A and by entropy H1."""


@register("arXiv 2604.11056, quadrants", options=QuadrantOptions, normalisation="kept")
def quadrants(batch: Scored, options: QuadrantOptions) -> Choice:
    """Tokens of high or of low entropy, by the sign of A; mean over those.

    The four-quadrant ablation. Ours, since no text in reach gives them: the threshold and the mean.
    """
    H1 = batch.stats["entropy"]
    high = top_share(H1, batch.valid, options.share, scope="batch", zeros=True)
    return Choice(_of_bins(batch, {"high": high, "low": ~high}, options.bins))


def _of_bins(batch: Scored, kinds: dict[str, BoolArray], bins: Sequence[str]) -> BoolArray:
    """(B, T): tokens in any of the bins SIGN_KIND."""
    signs = {"pos": batch.advantage > 0, "neg": batch.advantage < 0}
    kept = np.zeros(batch.valid.shape, dtype=bool)
    for name in bins:
        sign, kind = name.split("_")
        kept |= batch.valid & signs[sign][:, None] & kinds[kind]
    return kept


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


MIN_P = 0.02
"""kappa: a token of less than this times the highest probability is noise."""


def min_p(xp: Any, p: Any) -> Any:
    """p (..., V) over the tokens of at least `MIN_P` times the highest probability, renormalised; 0
    at the others (min-p, arXiv 2407.01082)."""
    likely = xp.where(p >= MIN_P * xp.max(p, axis=-1, keepdims=True), p, 0.0)
    return likely / xp.sum(likely, axis=-1, keepdims=True)


def pull_up(xp: Any, logp: Any, old_logp: Any, target: Any) -> Any:
    """The k3 estimate of KL(pi || target) where the target is above log pi (Lp-Reg, arXiv
    2510.03222)."""
    return xp.where(logp < target, k3(xp, logp, target), 0.0)


STATISTICS["min_p"] = Statistic(
    min_p, "token", "p of the token among those of at least 0.02 times max p"
)


class LpRegOptions(Options):
    share: float = Field(default=0.01, gt=0, le=1)
    """Share of the tokens with A < 0, the least probable, that may be pulled up."""
    coefficient: float = Field(default=1.0, ge=0)
    """beta, the weight of the pull."""


@register("arXiv 2510.03222", options=LpRegOptions, normalisation="tokens", wants=("min_p",))
def lp_reg(batch: Scored, options: LpRegOptions) -> Choice:
    """Every token; the least probable with A < 0 are pulled up to p without its noise.

    The proxy is p over the tokens that are not noise, renormalised; noise itself is not pulled up.
    Ours: the choice is made once a batch by the sampler's log pi, the count is rounded up, the clip
    of the ratio stays on at pulled tokens, and what renormalising adds is that at temperature 1.
    """
    proxy, prob = batch.stats["min_p"], batch.stats["prob"]
    blamed = batch.valid & (batch.advantage < 0)[:, None]
    pulled = top_share(-batch.logp, blamed, options.share, scope="batch", zeros=True) & (proxy > 0)
    lift = np.log(np.where(pulled, proxy, 1)) - np.log(np.where(pulled, prob, 1))
    pull = Term(pull_up, pulled * options.coefficient, target=batch.logp + lift)
    return Choice(batch.valid, terms=(pull,))

"""Methods of other papers that choose or weigh tokens by chance, by the sign of A or by surprise.

A plugin: plugins = ["methods.py"] in a recipe of this folder.
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

"""Methods that choose tokens: all, those with the highest scores, or all except a few."""

from functools import partial
from typing import Literal, cast

import numpy as np
from pydantic import Field

from ictcli.algorithm.objective import Term, distance_from_old
from ictcli.algorithm.quantities import MeanOver
from ictcli.algorithm.registry import Choice, Options, Scored, register
from ictcli.algorithm.selection import Scope, random_share, share_count, top_share
from ictcli.types import BoolArray, FloatArray


class ShareOptions(Options):
    keep: float | None = Field(default=None, gt=0, le=1)
    """Share of tokens kept; default: the recipe's `keep`."""
    scope: Scope = "response"
    """Where the share is taken: in each response, each group or the whole batch."""


selects = partial(register, options=ShareOptions, dense_warmup=True)


def _share(options: ShareOptions) -> float:
    return cast(float, options.keep)  # the recipe fills it in


class UnsureOptions(ShareOptions):
    max_prob: float = Field(default=1.0, gt=0, le=1)
    """Ours: tokens with a higher probability are not kept."""


class IctOptions(UnsureOptions):
    advantage_power: float = Field(default=0.0, ge=0)
    """lambda of the reward-augmented score u * max(A, 0)^lambda; the paper tried 0.1; 0 is off. If
    lambda > 0, responses with A <= 0 score 0 and none of their tokens is kept."""
    score: Literal["u", "u*h", "h"] = "u"
    """Ours: u*h multiplies u by the entropy H1, which is 0 where the model is certain; h is H1
    alone, a control that keeps the same share of each set."""
    reference: MeanOver = "position"
    """Ours: the tokens over which P_avg, the mean in u, is taken. In the paper these are the
    group's tokens at the same position; the paper's text can also mean all tokens of the response
    or of the group."""

    @property
    def u(self) -> str:
        """The name of the statistic used as u."""
        return "uniqueness" if self.reference == "position" else f"uniqueness_{self.reference}"

    @property
    def wants(self) -> tuple[str, ...]:
        return (self.u,)


@register("arXiv 2402.03300, Eq. 3")
def grpo(batch: Scored, options: Options) -> Choice:
    """Every token; per-sequence mean."""
    return Choice(batch.valid)


@selects("arXiv 2606.19771, A.3.7", options=IctOptions, wants=("uniqueness",))
def ict(batch: Scored, options: IctOptions) -> Choice:
    """The share `keep` of tokens with the highest uniqueness u = JS(p, mean p of the group)."""
    u, H1 = batch.stats[options.u], np.maximum(batch.stats["entropy"], 0)
    score = {"u": u, "u*h": u * H1, "h": H1}[options.score]
    score = np.where(_unsure(batch, options), score, 0)
    if options.advantage_power > 0:
        gain = np.maximum(batch.advantage, 0.0) ** options.advantage_power
        score = score * gain[:, None]
    return Choice(_top(batch, score, options))


class KlOptions(ShareOptions):
    reverse: bool = False
    """False: KL(p || P_avg); True: KL(P_avg || p)."""


@selects("arXiv 2606.19771, table 3", options=KlOptions, wants=("kl_from_mean", "kl_to_mean"))
def kl(batch: Scored, options: KlOptions) -> Choice:
    """As ict, scored by the Kullback-Leibler divergence from the group's mean."""
    divergence = "kl_to_mean" if options.reverse else "kl_from_mean"
    return Choice(_top(batch, batch.stats[divergence], options))


@selects("arXiv 2606.19771, table 3", wants=("wasserstein",))
def wasserstein(batch: Scored, options: ShareOptions) -> Choice:
    """As ict, scored by the Wasserstein-1 distance over token ids from the group's mean."""
    return Choice(_top(batch, batch.stats["wasserstein"], options))


def _unsure(batch: Scored, options: UnsureOptions) -> BoolArray:
    return np.minimum(batch.stats["prob"], 1) <= options.max_prob  # rounding may exceed 1


def _top(
    batch: Scored, score: FloatArray, options: ShareOptions, *, zeros: bool = False
) -> BoolArray:
    keep, scope = _share(options), options.scope
    return top_share(score, batch.valid, keep, scope=scope, group=batch.group, zeros=zeros)


@selects("control: the same share, chosen blindly", options=UnsureOptions)
def random(batch: Scored, options: UnsureOptions) -> Choice:
    """The share `keep` of tokens, drawn uniformly.

    Keeps exactly the share, unless too few tokens have p <= max_prob. ict keeps fewer tokens if u
    is 0 (shared prefixes, or a single response left at a position)."""
    unsure = _unsure(batch, options)
    keep, scope = _share(options), options.scope
    return Choice(
        random_share(batch.valid, keep, batch.rng, scope=scope, group=batch.group, among=unsure)
    )


@selects("arXiv 2606.19771, table 2", wants=("uniqueness",))
def frequent(batch: Scored, options: ShareOptions) -> Choice:
    """All tokens except the share `keep` with the highest uniqueness."""
    return Choice(batch.valid & ~_top(batch, batch.stats["uniqueness"], options, zeros=True))


class FifthOptions(Options):
    keep: float = Field(default=0.2, gt=0, le=1)
    """Share of tokens kept."""


@register("arXiv 2506.01939, Eq. 6", options=FifthOptions, normalisation="kept")
def entropy20(batch: Scored, options: FifthOptions) -> Choice:
    """The 20 % of tokens with the highest entropy H1 over the batch; mean over those.

    Ours: the batch is that of one optimiser update (the paper says micro-batch), so that the
    micro-batch size changes nothing."""
    H1 = batch.stats["entropy"]
    return Choice(top_share(H1, batch.valid, options.keep, scope="batch", zeros=True))


class StapoOptions(Options):
    prob_below: float = Field(default=0.002, ge=0, le=1)
    """Probability below which a token is improbable."""
    entropy_quantile: float = Field(default=0.75, ge=0, le=1)
    """Quantile below which H1 is low: 0.75 in v4 of the paper, 0.80 in v1 and in the ICT paper."""


@register("arXiv 2602.15620", options=StapoOptions, normalisation="kept")
def stapo(batch: Scored, options: StapoOptions) -> Choice:
    """All tokens except spurious ones: improbable, of low entropy, in a response with A > 0.

    Improbable means pi < prob_below, at temperature 1. Low means H1 below the entropy_quantile
    (linear between ranks) of H1 over the improbable tokens of correct responses; if there are no
    such tokens, every token is kept."""
    improbable = batch.valid & (batch.stats["prob"] < options.prob_below)
    H1 = batch.stats["entropy"]
    of_correct = H1[improbable & batch.correct[:, None]]
    if of_correct.size == 0:
        return Choice(batch.valid)
    low = np.quantile(of_correct.astype(np.float64), options.entropy_quantile)
    spurious = improbable & (low > H1) & (batch.advantage > 0)[:, None]
    return Choice(batch.valid & ~spurious)


def covariance(batch: Scored) -> FloatArray:
    """Return (A - mean A)(log pi - mean log pi) of each token (B, T); means are over the batch.

    Ours: log pi is the sampler's, so tokens are chosen once per batch, not again in each epoch."""
    A = np.broadcast_to(batch.advantage[:, None], batch.valid.shape)
    logp = batch.logp.astype(np.float64)
    cov = (A - A[batch.valid].mean()) * (logp - logp[batch.valid].mean())
    return np.where(batch.valid, cov, 0.0)


class ClipCovOptions(Options):
    ratio: float = Field(default=2e-4, gt=0, le=1)
    """Share of tokens left out."""
    low: float = 1.0
    """Covariance above which a token may be left out."""
    high: float = 5.0
    """Covariance below which a token may be left out."""


@register("arXiv 2505.22617, Clip-Cov", options=ClipCovOptions, normalisation="tokens")
def clip_cov(batch: Scored, options: ClipCovOptions) -> Choice:
    """All tokens except a random 2e-4, drawn where low < covariance of A and log pi < high."""
    cov = covariance(batch)
    rows, positions = np.nonzero(batch.valid & (cov > options.low) & (cov < options.high))
    count = min(share_count(options.ratio, int(batch.valid.sum())), len(rows))
    drop = batch.rng.permutation(len(rows))[:count]
    kept = batch.valid.copy()
    kept[rows[drop], positions[drop]] = False
    return Choice(kept)


class KlCovOptions(Options):
    ratio: float = Field(default=2e-4, gt=0, le=1)
    """Share of tokens penalised."""
    coefficient: float = Field(default=1.0, ge=0)
    """Weight of the penalty."""


@register("arXiv 2505.22617, KL-Cov", options=KlCovOptions, normalisation="tokens")
def kl_cov(batch: Scored, options: KlCovOptions) -> Choice:
    """Every token; |log pi - log pi_old| is penalised on the 2e-4 with the highest covariance.

    With one optimiser update per batch, pi equals pi_old and the penalty has no gradient."""
    chosen, cov = np.zeros(batch.valid.shape, dtype=bool), covariance(batch)
    rows, positions = np.nonzero(batch.valid)
    best = np.argsort(-cov[rows, positions], kind="stable")
    best = best[: share_count(options.ratio, len(rows))]
    chosen[rows[best], positions[best]] = True
    return Choice(batch.valid, terms=(Term(distance_from_old, chosen * options.coefficient),))


@register("arXiv 2503.20783", normalisation="constant", scaled_advantage=False)
def dr_grpo(batch: Scored, options: Options) -> Choice:
    """Every token; constant-length normalisation, advantages without the standard deviation."""
    return Choice(batch.valid)


@register("arXiv 2503.14476", normalisation="tokens")
def dapo(batch: Scored, options: Options) -> Choice:
    """Every token; token mean over the batch (its clip-higher is the recipe's clip.high)."""
    return Choice(batch.valid)

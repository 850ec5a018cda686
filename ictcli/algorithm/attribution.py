"""Where the policy gradient goes: how much of it lies on which kind of token.

At ratio 1 and without KL and entropy terms, the loss of a token y with weight w and advantage A has
the gradient -w A (e_y - p) by its logits, p = softmax(L). Its length is the token's part here:

    |w A| sqrt((1 - p_y)^2 + sum_{v != y} p_v^2) = |w A| sqrt(1 - 2 p_y + beta),  beta = sum p^2

p_y and beta are recorded while sampling, so this is exact at temperature 1; at another it is of the
model's distribution, not of the sampler's. Lengths are of single tokens: those that pull one way in
the weights and those that cancel each other count alike. Ours.
"""

import numpy as np

from ictcli.types import BoolArray, FloatArray, Rollouts

KINDS: tuple[str, str, str, str] = ("right forks", "wrong forks", "sure", "rest")
"""Of tokens: true forks where the right choice was taken, and the wrong one; other tokens to which
the model gave more than SURE; all others."""
SURE = 0.99


def logit_gradient(prob: FloatArray, purity: FloatArray) -> FloatArray:
    """|e_y - p| of a sampled token of probability `prob` in a distribution of this purity, float64.

    The other tokens' sum of squares lies in [0, (1 - p_y)^2], which rounding of p_y near 1 leaves.
    """
    p, beta = np.clip(prob, 0, 1).astype(np.float64), purity.astype(np.float64)
    return np.sqrt((1 - p) ** 2 + np.clip(beta - p**2, 0, (1 - p) ** 2))


def attribute(
    rollouts: Rollouts,
    weights: FloatArray,
    advantage: FloatArray,
    right: BoolArray | None = None,
    wrong: BoolArray | None = None,
    lost: BoolArray | None = None,
) -> FloatArray:
    """Shares of the gradient, (4, 2, 2), which add up to 1, or all 0 without a gradient: by KINDS;
    raised, w A > 0, or lowered; while the right answer is within reach, or after it is lost.

    Of rollouts with prob and purity, weights (B, T) and advantage (B,). `right` and `wrong` are the
    forks by the choice taken, `lost` the tokens after the answer is lost, (B, T); without them no
    token is a fork, and no answer lost."""
    nowhere = np.zeros(weights.shape, dtype=bool)
    right, wrong, lost = (nowhere if mask is None else mask for mask in (right, wrong, lost))
    prob = rollouts.stats["prob"]
    push = np.where(rollouts.valid, weights.astype(np.float64) * advantage[:, None], 0.0)
    size = np.abs(push) * logit_gradient(prob, rollouts.stats["purity"])
    kind = np.select([right, wrong, prob > SURE], [0, 1, 2], 3)
    place = (2 * kind + (push < 0)) * 2 + lost
    total = np.bincount(place.ravel(), size.ravel(), minlength=4 * len(KINDS))
    return (total / (total.sum() or 1.0)).reshape(len(KINDS), 2, 2)

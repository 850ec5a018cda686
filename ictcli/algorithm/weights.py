"""Advantages of rollouts, and weights of tokens, which express all normalisations of the loss.

With L = -sum w * Psi and w normalised over the whole batch of one optimiser update, gradients of
micro-batches of any size simply add up.
"""

from typing import Literal

import numpy as np

from ictcli.types import BoolArray, FloatArray

Normalisation = Literal["sequence", "kept", "tokens", "constant"]


def normalise(
    kept: BoolArray, valid: BoolArray, normalisation: Normalisation, max_tokens: int
) -> FloatArray:
    """Turn a mask of the tokens that a method keeps (B, T) into weights (B, T), float32.

    | normalisation | weight of a kept token | used by |
    |---|---|---|
    | sequence | 1 / (B * kept tokens of its row) | GRPO (2402.03300), ICT (2606.19771) |
    | kept | 1 / kept tokens of the batch | entropy20 (2506.01939 Eq. 6), STAPO (2602.15620) |
    | tokens | 1 / tokens of the batch | DAPO (2503.14476), Clip-Cov and KL-Cov (2505.22617) |
    | constant | 1 / (B * max_tokens) | Dr. GRPO (2503.20783) |

    A row without kept tokens has weight 0, and still counts in B."""
    B = len(kept)
    mask = kept.astype(np.float64)
    if normalisation == "sequence":
        weights = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1.0) / B
    elif normalisation == "constant":
        weights = mask / (B * max_tokens)
    else:
        counted = kept if normalisation == "kept" else valid
        weights = mask / max(int(counted.sum()), 1)
    return weights.astype(np.float32)


def group_advantage(rewards: FloatArray, group: int, *, scale: bool = True) -> FloatArray:
    """Turn rewards (B,), group-major, into advantages (B,).

    A_i = (r_i - mean r) / (std r + 1e-6) over the group (GRPO, arXiv 2402.03300, with the
    population standard deviation); without `scale` the difference from the mean (Dr. GRPO, arXiv
    2503.20783). Exactly 0 if all rewards of a group are equal."""
    r = np.asarray(rewards, dtype=np.float64).reshape(-1, group)
    centred = r - r.mean(axis=1, keepdims=True)
    centred[(r == r[:, :1]).all(axis=1)] = 0.0
    if scale:
        centred = centred / (r.std(axis=1, keepdims=True) + 1e-6)
    return centred.reshape(-1)

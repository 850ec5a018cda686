"""From rewards to advantages, within each prompt's group."""

import numpy as np

from ictcli.types import FloatArray


def group_advantage(rewards: FloatArray, group: int, *, scale: bool = True) -> FloatArray:
    """(B,) rewards, group-major, to (B,) advantages.

    A_i = (r_i - mean r) / (std r + 1e-6) over the group (GRPO, arXiv 2402.03300, with the
    population standard deviation); without `scale` only the mean is taken off (Dr. GRPO, arXiv
    2503.20783). Exactly 0 where all rewards of a group are equal.
    """
    r = np.asarray(rewards, dtype=np.float64).reshape(-1, group)
    centred = r - r.mean(axis=1, keepdims=True)
    centred[(r == r[:, :1]).all(axis=1)] = 0.0
    if scale:
        centred = centred / (r.std(axis=1, keepdims=True) + 1e-6)
    return centred.reshape(-1)

"""Branches: the tokens at which rollouts of a group diverge after a shared prefix. Ours."""

from typing import NamedTuple

import numpy as np

from ictcli.types import BoolArray, Rollouts

SURE = 0.99
"""The model is sure of a token if the token's probability is higher than this."""


class PrefixTree(NamedTuple):
    """Where tokens lie in the prefix tree of their group's rollouts: masks (B, T)."""

    branch: BoolArray
    """Whether another rollout of the group has the same prefix and then a different token."""
    alone: BoolArray
    """Whether no other rollout of the group has the same prefix."""


def prefix_tree(rollouts: Rollouts) -> PrefixTree:
    """Return which tokens are branches, and which follow a prefix that no other rollout has."""
    valid, tokens = rollouts.valid, rollouts.tokens
    branch, alone = np.zeros(valid.shape, dtype=bool), np.zeros(valid.shape, dtype=bool)
    node = np.arange(len(valid)) // rollouts.group  # rows of one node have one prefix
    shared = np.arange(len(valid))  # rows whose prefix another row may have
    for t in range(valid.shape[1]):
        rows = shared[valid[shared, t]]
        if not len(rows):
            break
        _, parents = np.unique(node[rows], return_inverse=True)
        pairs = np.column_stack([parents, tokens[rows, t]])
        children, child = np.unique(pairs, axis=0, return_inverse=True)
        branch[rows, t] = np.bincount(children[:, 0])[parents] > 1
        lone = np.bincount(parents)[parents] == 1
        alone[rows[lone], t:] = valid[rows[lone], t:]  # to the end of the response
        node[rows] = child.ravel()
        shared = rows[~lone]
    return PrefixTree(branch, alone)


def where_kept(rollouts: Rollouts, kept: BoolArray) -> dict[str, float | None]:
    """Return shares that say where kept tokens (B, T) lie: branches among all tokens, kept tokens
    among branches, branches among kept tokens, tokens with a unique prefix, and sure tokens among
    all tokens and among kept tokens; None if there are none to count. Needs the statistic
    `prob`."""
    valid, (branch, alone) = rollouts.valid, prefix_tree(rollouts)
    sure = rollouts.stats["prob"] > SURE

    def share(of: BoolArray, among: BoolArray) -> float | None:
        return float(of[among].mean()) if among.any() else None

    return {
        "branch_share": share(branch, valid),
        "branch_recall": share(kept, branch),
        "branch_precision": share(branch, kept),
        "alone": share(alone, valid),
        "sure": share(sure, valid),
        "kept_sure": share(sure, kept),
    }

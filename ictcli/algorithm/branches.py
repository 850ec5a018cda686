"""Branches: where the rollouts of a group part, known from the rollouts alone. Ours."""

from typing import NamedTuple

import numpy as np

from ictcli.types import BoolArray, Rollouts

SURE = 0.99
"""A token of a higher probability is one that the model is sure of."""


class PrefixTree(NamedTuple):
    """Tokens of rollouts by their place in the prefix tree of their group, (B, T) each."""

    branch: BoolArray
    """At least one other rollout has written the same response so far, and another token here."""
    alone: BoolArray
    """No other rollout has written the same response so far."""


def prefix_tree(rollouts: Rollouts) -> PrefixTree:
    """Return which tokens are branches, and which no other rollout shares."""
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
        alone[rows[lone], t:] = valid[rows[lone], t:]  # from here to its end
        node[rows] = child.ravel()
        shared = rows[~lone]
    return PrefixTree(branch, alone)


def where_kept(rollouts: Rollouts, kept: BoolArray) -> dict[str, float | None]:
    """Return where kept tokens (B, T) lie: branches of all tokens, branches kept, kept tokens that
    are branches, tokens that stand alone, and sure tokens of all and of the kept. Needs the
    statistic `prob`. None where there is nothing to mean."""
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

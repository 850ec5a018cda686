"""How many tokens the runs of a comparison trained, and how many forks among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ictcli.compare.claims import Trained, method_of
from ictcli.compare.finished import FinishedRun
from ictcli.compare.time_estimate import warmup_of
from ictcli.types import FloatArray

FORK_METHODS = ("ict", "random", "entropy20")


def series(run: Sequence[Mapping[str, Any]], name: str) -> FloatArray:
    values = [np.nan if line.get(name) is None else line[name] for line in run]
    return np.array(values, dtype=np.float64)


def trained(done: Sequence[FinishedRun], label: str) -> Trained:
    """The shares of tokens that a variant's runs trained."""
    mine = [one for one in done if one.label == label]
    chose = [one.summary["kept_tokens"].get("share_kept") for one in mine if not is_dense(one)]
    known = [share for share in chose if share is not None]
    whole = float(np.mean([one.summary["tokens_kept_share"] for one in mine]))
    return Trained(whole, float(np.mean(known)) if known else None)


def is_dense(run: FinishedRun) -> bool:
    """Whether the dense warm-up takes every step: the run trained as grpo."""
    recipe = run.spec.recipe
    return warmup_of(recipe) >= recipe.steps


def recalls(
    done: Sequence[FinishedRun], seeds: Sequence[int]
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Recall of the true forks while training, behind every dense warm-up, a mean a seed (NaN where
    that run is missing), of the variants of the methods the claim is about, and the share of tokens
    they kept in the same steps. What was dense in every step chose no token."""
    mine = [one for one in done if method_of(one.label) in FORK_METHODS and not is_dense(one)]
    warmup = max((warmup_of(one.spec.recipe) for one in mine), default=0)
    found: dict[str, list[float]] = {}
    kept: dict[str, list[float]] = {}
    for one in mine:
        curve = series(one.metrics[warmup:], "fork_recall")
        if (~np.isnan(curve)).any():
            recalls = found.setdefault(one.label, [np.nan] * len(seeds))
            recalls[seeds.index(one.spec.seed)] = float(np.nanmean(curve))
            share = np.nanmean(series(one.metrics[warmup:], "share_kept"))
            kept.setdefault(one.label, []).append(float(share))
    return found, {label: float(np.mean(shares)) for label, shares in kept.items()}

"""The metrics of metrics.jsonl by name, and whether a recipe records one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ictcli.errors import nearest

if TYPE_CHECKING:
    from ictcli.recipe import Recipe

EVERY_STEP = (
    *("reward", "reward_std", "correct", "unparsed", "timed_out", "formatted", "truncated"),
    *("length", "groups_with_signal", "entropy", "renyi2", "share_kept", "kept_prob"),
    *("regime_high", "regime_low", "high_low_ratio", "share_kept_positive"),
    *("share_kept_negative", "loss", "grad_norm", "clip_fraction", "updates", "lr"),
)
OF_FORKS = ("fork_share", "fork_recall", "fork_precision")
"""Recorded for tasks that know their forks."""
OF_UNIQUENESS = ("uniqueness", "uniqueness_entropy_spearman")
OF_PROBES = ("probe_positions", "probe_pearson", "probe_error", "probe_change")
KNOWN = (*EVERY_STEP, *OF_FORKS, *OF_UNIQUENESS, *OF_PROBES, "kl", "sampler_gap")


def direction(wanted: str) -> tuple[str, int]:
    """(name, 1), or (name, -1) for `-name`: lower is better."""
    return (wanted[1:], -1) if wanted.startswith("-") else (wanted, 1)


def is_dense(name: str) -> bool:
    """Whether every step records the metric."""
    return not name.startswith("eval/") and name not in OF_PROBES


def unrecorded(recipe: Recipe, wanted: str) -> tuple[str, str] | None:
    """Why a recipe can judge no checkpoint by a metric, and a hint; None if it can, as far as the
    recipe alone tells."""
    name, _ = direction(wanted)
    measured = [f"eval/pass@{k}" for k in recipe.eval.k]
    if name.startswith("eval/") and name not in measured:
        hint = f"they measure {', '.join(measured)} (eval.k)"
        return "is not measured by the evaluations", hint
    if name in measured and not 0 < recipe.eval.every < recipe.steps:
        return "is not measured between the steps", "eval.every=25 evaluates every 25 steps"
    if name not in (*KNOWN, *measured):
        near = nearest(name, [*KNOWN, *measured])
        return f"is no number of metrics.jsonl{near}", "for example eval/pass@1"
    if name == "kl" and recipe.kl == 0:
        return "is recorded where kl > 0 only", "kl=0.001"
    mini_batches = 0 < recipe.update.minibatch < recipe.prompts
    if name == "sampler_gap" and not mini_batches and recipe.engine.sampler == "own":
        return "is recorded with mini-batches only", "update.minibatch=4"
    if name in OF_UNIQUENESS and "uniqueness" not in recipe.wanted_stats:
        return "is not recorded", "record.uniqueness=true"
    if name in OF_PROBES:
        every, saved = recipe.record.probe_every, recipe.checkpoint.every
        if not every or (math.lcm(every, saved) > recipe.steps and recipe.steps % every):
            return "is not measured at any checkpoint", f"record.probe_every={saved}"
    return None

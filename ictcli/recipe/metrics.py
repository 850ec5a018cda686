"""The metrics of metrics.jsonl by name, and whether a recipe records one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ictcli.algorithm.quantities import STATISTICS
from ictcli.errors import nearest

if TYPE_CHECKING:
    from ictcli.recipe import Recipe

EVERY_STEP = (
    *("reward", "reward_std", "correct", "unparsed", "timed_out", "formatted", "truncated"),
    *("length", "groups_with_signal", "renyi2", "share_kept", "kept_prob"),
    *("regime_high", "regime_low", "high_low_ratio", "share_kept_positive"),
    *("share_kept_negative", "loss", "grad_norm", "clip_fraction", "updates", "lr"),
)
OF_FORKS = ("fork_share", "fork_recall", "fork_precision")
"""Recorded for tasks that know their forks."""
SPEARMAN = "uniqueness_entropy_spearman"
OF_PROBES = ("probe_positions", "probe_pearson", "probe_error", "probe_change")
KNOWN = (*EVERY_STEP, *OF_FORKS, SPEARMAN, *OF_PROBES, "kl", "sampler_gap")


def known() -> list[str]:
    """All names, with the means of statistics, which a plugin may have added to."""
    return [*KNOWN, *(name for name, each in STATISTICS.items() if each.mean)]


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
    if name not in (*known(), *measured):
        near = nearest(name, [*known(), *measured])
        return f"is no number of metrics.jsonl{near}", "for example eval/pass@1"
    if name == "kl" and recipe.kl == 0:
        return "is recorded where kl > 0 only", "kl=0.001"
    mini_batches = 0 < recipe.update.minibatch < recipe.prompts
    if name == "sampler_gap" and not mini_batches and recipe.engine.sampler == "own":
        return "is recorded with mini-batches only", "update.minibatch=4"
    of = "uniqueness" if name == SPEARMAN else name
    if of in STATISTICS and of not in recipe.wanted_stats:
        hint = "record.uniqueness=true" if of == "uniqueness" else "a method that wants it"
        return "is not recorded", hint
    if name in OF_PROBES:
        every, saved = recipe.record.probe_every, recipe.checkpoint.every
        if not every or (math.lcm(every, saved) > recipe.steps and recipe.steps % every):
            return "is not measured at any checkpoint", f"record.probe_every={saved}"
    return None

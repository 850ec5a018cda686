"""What a step records: the line of metrics.jsonl."""

import math
from collections.abc import Sequence

from ictcli.algorithm.dynamics import diagnose, mean_or_none
from ictcli.recipe import Recipe
from ictcli.rewards.shaping import formatted
from ictcli.runs.records import StepMetrics
from ictcli.runs.rollouts import Batch
from ictcli.train.step import StepSelection, Updates
from ictcli.types import BoolArray, Rollouts, UpdateReport


def measure(
    recipe: Recipe,
    step: int,
    batch: Batch,
    selection: StepSelection,
    updates: Updates,
    forks: BoolArray | None = None,
) -> StepMetrics:
    """The metrics of a step; a figure that is not finite is None. `forks` (B, T) are the true
    forks, where the task knows them."""
    rollouts, reports = batch.rollouts, updates.reports
    statuses = [verdict.status for verdict in batch.verdicts]
    signal = (batch.advantage != 0).reshape(-1, recipe.group).any(axis=1)
    figures: dict[str, float | None] = {
        "reward": float(batch.rewards.mean()),
        "reward_std": float(batch.rewards.std()),
        "correct": statuses.count("correct") / len(statuses),
        "unparsed": statuses.count("unparsed") / len(statuses),
        "timed_out": statuses.count("timeout") / len(statuses),
        "formatted": sum(map(formatted, batch.verdicts)) / len(statuses),
        "truncated": float(1 - rollouts.finished.mean()),
        "length": float(rollouts.lengths.mean()),
        "groups_with_signal": float(signal.mean()),
        **diagnose(rollouts, batch.advantage, selection.kept),
        **({} if forks is None else _fork_figures(forks, rollouts, selection.kept)),
        "loss": mean_or_none([report.loss for report in reports]),
        "grad_norm": mean_or_none([report.grad_norm for report in reports]),
        "clip_fraction": _over_tokens(reports, "clip_fraction"),
        "kl": _over_tokens(reports, "kl") if recipe.kl > 0 else None,
        "lr": recipe.lr_at(step),
        **updates.probe,
    }
    if recipe.update.minibatch and recipe.update.minibatch < recipe.prompts and reports:
        figures["sampler_gap"] = reports[0].ratio_gap
    return StepMetrics(
        step=step,
        updates=sum(report.stepped for report in reports),
        finite=batch.finite and updates.finite,
        **{
            name: None if value is None or not math.isfinite(value) else value
            for name, value in figures.items()
        },
    )


def _over_tokens(reports: Sequence[UpdateReport], name: str) -> float | None:
    """The mean of a report's figure over the tokens of all updates; None where there were none."""
    total = sum(report.evaluated for report in reports)
    summed = sum(getattr(report, name) * report.evaluated for report in reports)
    return summed / max(total, 1) if reports else None


def _fork_figures(forks: BoolArray, rollouts: Rollouts, kept: BoolArray) -> dict[str, float | None]:
    both = int((forks & kept).sum())
    return {
        "fork_share": float(forks.sum() / rollouts.lengths.sum()),
        "fork_recall": both / int(forks.sum()) if forks.any() else None,
        "fork_precision": both / int(kept.sum()) if kept.any() else None,
    }

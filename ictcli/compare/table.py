"""The numbers of a comparison: means over seeds with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np


def mean_interval(values: Sequence[float]) -> dict[str, float | None]:
    """The mean over seeds with its 95 % Student-t interval; one seed has no interval: None."""
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    data = np.asarray(values, dtype=np.float64)
    mean = float(data.mean())
    if len(data) < 2:
        return {"value": mean, "low": None, "high": None}
    half = float(cast(Any, stats).t.ppf(0.975, len(data) - 1) * data.std(ddof=1) / len(data) ** 0.5)
    return {"value": mean, "low": mean - half, "high": mean + half}


def rows_of(summaries: Mapping[tuple[str, int], dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a method, the base model first; figures are means over seeds. What is said of kept
    tokens is of training, behind the dense warm-up."""
    methods = list(dict.fromkeys(method for method, _ in summaries))
    first = next(iter(summaries.values()))
    metrics = list(first["after"])
    baseline: dict[str, Any] = {"method": "(before)", "seeds": len(summaries)}
    for metric in metrics:
        by_seed = {seed: s["before"][metric]["value"] for (_, seed), s in summaries.items()}
        baseline[metric] = mean_interval(list(by_seed.values()))
        baseline["seeds"] = len(by_seed)
    rows = [baseline]
    for method in methods:
        mine = {seed: s for (m, seed), s in summaries.items() if m == method}
        row: dict[str, Any] = {"method": method, "seeds": len(mine)}
        for metric in metrics:
            row[metric] = mean_interval([s["after"][metric]["value"] for s in mine.values()])
        row["seconds_per_step"] = float(np.mean([s["train_s"] / s["steps"] for s in mine.values()]))
        row["tokens_kept_share"] = float(np.mean([s["tokens_kept_share"] for s in mine.values()]))
        for name in ("kept_prob", "regime_high", "fork_recall", "fork_precision"):
            seen = [s["kept_tokens"][name] for s in mine.values() if name in s["kept_tokens"]]
            if seen:
                row[name] = float(np.mean(seen))
        rows.append(row)
    return rows

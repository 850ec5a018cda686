"""The terminal's table of a comparison: what each method cost and kept, a row a method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ictcli.compare.statistics import BEFORE


def rows_of(summaries: Mapping[tuple[str, int], dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a variant, the base model first; figures are means over seeds. What is said of kept
    tokens is of training, behind the dense warm-up."""
    methods = list(dict.fromkeys(method for method, _ in summaries))
    rows: list[dict[str, Any]] = [{"method": BEFORE, "seeds": len({seed for _, seed in summaries})}]
    for method in methods:
        mine = [summary for (name, _), summary in summaries.items() if name == method]
        row: dict[str, Any] = {"method": method, "seeds": len(mine)}
        row["seconds_per_step"] = float(np.mean([s["train_s"] / s["steps"] for s in mine]))
        row["tokens_kept_share"] = float(np.mean([s["tokens_kept_share"] for s in mine]))
        for name in ("kept_prob", "regime_high", "fork_recall", "fork_precision"):
            seen = [s["kept_tokens"][name] for s in mine if name in s["kept_tokens"]]
            if seen:
                row[name] = float(np.mean(seen))
        rows.append(row)
    return rows

"""Runs side by side: the keys and libraries that differ, and paired differences of what they reach.

A difference is paired where both runs were evaluated on the same problems, those of
eval/after.jsonl in the same order. Its interval is over problems (`ictcli.evaluation.passk`): it
says nothing of other seeds, which `ictcli compare` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from ictcli.evaluation.passk import paired, pass_at_k
from ictcli.runs.list import entry
from ictcli.runs.read import Table, count, lines, number, scores_of, table, within
from ictcli.runs.show import flat
from ictcli.types import IntArray

UNLIKE = ("command", "data")
"""Of environment.json: not of the environment."""
TOTALS = ("wall_s", "train_s", "tokens_sampled", "tokens_kept_share", "steps_skipped", "peak_bytes")


def difference(runs: Sequence[Path]) -> Table:
    """Two runs or more against the first: `{runs, recipe, environment, data, results, paired}`."""
    environments = [table(run / "environment.json") or {} for run in runs]
    own = [{k: v for k, v in one.items() if k not in UNLIKE} for one in environments]
    return {
        "runs": [entry(run).json() for run in runs],
        "recipe": differing([table(run / "recipe.toml") or {} for run in runs]),
        "environment": differing(own),
        "data": differing([within(one, "data") or {} for one in environments]),
        "results": [_result(run) for run in runs],
        "paired": [_paired(run, runs[0]) for run in runs[1:]],
    }


def differing(tables: Sequence[Table]) -> dict[str, list[Any]]:
    """By dotted name, the values of each, of those that are not all equal; None where one has
    none. A table that is empty, since its file is missing, differs in nothing."""
    found = [flat(one) for one in tables]
    known = [one for one in found if one]
    names = dict.fromkeys(name for one in known for name in one)
    unlike = [name for name in names if any(one.get(name) != known[0].get(name) for one in known)]
    return {name: [one.get(name) for one in found] for name in unlike}


def _result(run: Path) -> Table:
    summary = table(run / "summary.json") or {}
    evaluation = table(run / "eval" / "after.json") or {}
    return {
        "problems": count(evaluation.get("problems")),
        **scores_of(evaluation),
        **{name: number(summary[name]) for name in TOTALS if name in summary},
    }


def _paired(run: Path, first: Path) -> Table:
    """The differences of one run from the first, or why there are none."""
    mine, other = (_scored(path) for path in (run, first))
    if mine is None or other is None:
        missing = run if mine is None else first
        return {"run": str(run), "why_not": f"{missing} has no evaluation after training"}
    if unlike := differing([mine.settings, other.settings]):
        return {"run": str(run), "why_not": f"they were evaluated with another {', '.join(unlike)}"}
    if mine.problems != other.problems:
        return {"run": str(run), "why_not": "they were evaluated on other problems"}
    found: Table = {"run": str(run), "problems": len(mine.problems)}
    for k in sorted(mine.ks & other.ks):
        values = [pass_at_k(one.n, one.correct, k) for one in (mine, other)]
        found[f"pass@{k}"] = paired(values[0], values[1]).json()
    return found


@dataclass(frozen=True)
class Scored:
    """An evaluation after training, problem by problem."""

    n: int
    ks: set[int]
    correct: IntArray
    """(problems,) of n samples each."""
    problems: list[str]
    settings: Table
    """What two evaluations share whose figures can be set against each other."""


SETTINGS = ("temperature", "top_p", "top_k", "max_tokens")


def _scored(run: Path) -> Scored | None:
    """None where there is none that can be read."""
    found = table(run / "eval" / "after.json") or {}
    counts: Any = found.get("correct")
    ids = [str(line.get("id")) for line in lines(run / "eval" / "after.jsonl")]
    problems, n = list(dict.fromkeys(ids)), count(found.get("n")) or 0
    if not isinstance(counts, list) or not problems or len(ids) != n * len(problems):
        return None
    correct: Any = np.array([count(one) for one in cast(list[object], counts)], dtype=np.float64)
    if len(correct) != len(problems) or not ((correct >= 0) & (correct <= n)).all():
        return None
    ks = {int(name.removeprefix("pass@")) for name in scores_of(found) if name.startswith("pass@")}
    told = {name: within(found, "settings", name) for name in SETTINGS}
    return Scored(
        n,
        {k for k in ks if k <= n},
        correct.astype(np.int64),
        problems,
        {"benchmark": found.get("benchmark"), **told},
    )

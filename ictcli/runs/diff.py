"""Runs side by side: the keys and libraries that differ, and paired differences of what they reach.

A difference is paired where both runs were evaluated on the same problems, those of
eval/after.jsonl in the same order. Its interval is over problems (`ictcli.evaluation.passk`): it
says nothing of other seeds, which `ictcli compare` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ictcli.evaluation.passk import paired, pass_at_k
from ictcli.evaluation.record import Evaluation
from ictcli.runs.list import entry
from ictcli.runs.read import Table, read_lines, read_record
from ictcli.runs.records import (
    Environment,
    RecipeRecord,
    RunRecord,
    SampleRecord,
    Summary,
    passes_by_k,
)
from ictcli.runs.show import flat
from ictcli.types import IntArray

UNLIKE = ("command", "data")
"""Of environment.json: not of the environment."""
TOTALS = {"wall_s", "train_s", "tokens_sampled", "tokens_kept_share", "steps_skipped", "peak_bytes"}


def difference(runs: Sequence[Path]) -> Table:
    """Two runs or more against the first: `{runs, recipe, environment, data, results, paired}`."""
    recipes = [_table(run / "recipe.toml", RecipeRecord) for run in runs]
    environments = [_table(run / "environment.json", Environment) for run in runs]
    where = [{k: v for k, v in table.items() if k not in UNLIKE} for table in environments]
    return {
        "runs": [entry(run).json() for run in runs],
        "recipe": differing(recipes),
        "environment": differing(where),
        "data": differing([table.get("data", {}) for table in environments]),
        "results": [_result(run) for run in runs],
        "paired": [_paired(run, runs[0]) for run in runs[1:]],
    }


def _table(path: Path, kind: type[RunRecord]) -> Table:
    record = read_record(path, kind, strict=False)
    return record.to_json() if record else {}


def differing(tables: Sequence[Table]) -> dict[str, list[Any]]:
    """By dotted name, the values of each, of those that are not all equal; None where one has
    none. A table that is empty, since its file is missing, differs in nothing."""
    found = [flat(one) for one in tables]
    known = [one for one in found if one]
    names = dict.fromkeys(name for one in known for name in one)
    unlike = [name for name in names if any(one.get(name) != known[0].get(name) for one in known)]
    return {name: [one.get(name) for one in found] for name in unlike}


def _result(run: Path) -> Table:
    summary = read_record(run / "summary.json", Summary, strict=False)
    evaluation = read_record(run / "eval" / "after.json", Evaluation, strict=False)
    scores = evaluation.scores if evaluation else {}
    return {
        "problems": evaluation.problems if evaluation else None,
        **{name: score.json() for name, score in scores.items() if score},
        **(summary.model_dump(include=TOTALS, exclude_unset=True) if summary else {}),
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
    evaluation = read_record(run / "eval" / "after.json", Evaluation, strict=False)
    samples = read_lines(run / "eval" / "after.jsonl", SampleRecord)
    problems = list(dict.fromkeys(sample.id for sample in samples))
    if evaluation is None or not problems:
        return None
    n, correct = evaluation.n, np.array(evaluation.correct)
    if len(samples) != n * len(problems) or len(correct) != len(problems):
        return None
    if not ((correct >= 0) & (correct <= n)).all():
        return None
    settings = {name: getattr(evaluation.settings, name) for name in SETTINGS}
    return Scored(
        n,
        {k for k in passes_by_k(evaluation.passes) if k <= n},
        correct,
        problems,
        {"benchmark": evaluation.benchmark, **settings},
    )

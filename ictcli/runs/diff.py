"""Compare runs: settings and library versions that differ, and the results of each run.

`ictcli compare` tests differences between methods, over seeds.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from ictcli.evaluation.passk import Interval
from ictcli.evaluation.record import Evaluation, Scored
from ictcli.files.origin import differing
from ictcli.runs.list import Entry, entry
from ictcli.runs.read import read_environment, read_record
from ictcli.runs.records import RecipeRecord, RunRecord, Summary

TOTALS = (
    *("wall_s", "train_s", "rollouts_sampled", "tokens_sampled", "tokens_kept_share"),
    *("steps_skipped", "peak_bytes"),
)
Differing = dict[str, list[Any]]
"""The value in each run, by the dotted name of a key that differs."""


class Result(Scored):
    """Scores and totals of a run; those that are not known are left out."""

    model_config = ConfigDict(extra="allow")

    problems: int | None
    scores: dict[str, Interval]

    def value(self, name: str) -> Interval | float | None:
        """Return a score by its name, or `problems`, or one of `TOTALS`; None if it is unknown."""
        return self.scores.get(name) or getattr(self, name, None)


class RunDiff(RunRecord):
    """The differences between two or more runs."""

    runs: list[Entry]
    recipe: Differing
    environment: Differing
    data: Differing
    results: list[Result]


def difference(runs: Sequence[Path]) -> RunDiff:
    """Return the differences between two or more runs."""
    recipes = [read_record(run / "recipe.toml", RecipeRecord, strict=False) for run in runs]
    environments = [read_environment(run) for run in runs]
    tables = [e.model_dump(exclude={"command", "data"}, exclude_unset=True) for e in environments]
    return RunDiff(
        runs=[entry(run, "eval/after.jsonl") for run in runs],
        recipe=differing([recipe.to_json() if recipe else {} for recipe in recipes]),
        environment=differing(tables),
        data=differing([environment.data.to_json() for environment in environments]),
        results=[_result(run) for run in runs],
    )


def _result(run: Path) -> Result:
    summary = read_record(run / "summary.json", Summary, strict=False)
    evaluation = read_record(run / "eval" / "after.json", Evaluation, strict=False)
    scores = evaluation.scores if evaluation else {}
    return Result(
        problems=evaluation.problems if evaluation else None,
        scores={name: score for name, score in scores.items() if score},
        **(summary.model_dump(include=set(TOTALS), exclude_unset=True) if summary else {}),
    )

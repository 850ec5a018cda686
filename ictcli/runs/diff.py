"""Runs side by side: the keys and libraries that differ, and what the runs reached.

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
"""By dotted name, the value of each run."""


class Result(Scored):
    """What a run reached and took, as far as it is known."""

    model_config = ConfigDict(extra="allow")

    problems: int | None
    scores: dict[str, Interval]

    def value(self, name: str) -> Interval | float | None:
        """Return a score, or another figure by its name: `problems`, or one of `TOTALS`."""
        return self.scores.get(name) or getattr(self, name, None)


class RunDiff(RunRecord):
    """The differences of two runs or more from the first."""

    runs: list[Entry]
    recipe: Differing
    environment: Differing
    data: Differing
    results: list[Result]


def difference(runs: Sequence[Path]) -> RunDiff:
    """Compare two runs or more with the first."""
    recipes = [read_record(run / "recipe.toml", RecipeRecord, strict=False) for run in runs]
    environments = [read_environment(run) for run in runs]
    places = [e.model_dump(exclude={"command", "data"}, exclude_unset=True) for e in environments]
    return RunDiff(
        runs=[entry(run, "eval/after.jsonl") for run in runs],
        recipe=differing([recipe.to_json() if recipe else {} for recipe in recipes]),
        environment=differing(places),
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

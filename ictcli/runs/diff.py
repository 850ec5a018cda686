"""Runs side by side: the keys and libraries that differ, and what the runs reached.

Two runs that were evaluated on the same problems are compared problem by problem. The interval of
such a difference is over problems (`ictcli.evaluation.passk`) and says nothing of other seeds, over
which `ictcli compare` averages.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ConfigDict, Field

from ictcli.evaluation.passk import Difference, Interval, paired, pass_at_k
from ictcli.evaluation.record import Evaluation, Scored
from ictcli.files.origin import differing
from ictcli.runs.list import Entry, entry
from ictcli.runs.read import read_environment, read_record
from ictcli.runs.records import RecipeRecord, RunRecord, Summary, passes_by_k

TOTALS = (
    *("wall_s", "train_s", "rollouts_sampled", "tokens_sampled", "tokens_kept_share"),
    *("steps_skipped", "peak_bytes"),
)
ALIKE = {"temperature", "top_p", "top_k", "max_tokens"}
"""The settings that two evaluations must share to be compared."""
Differing = dict[str, list[Any]]
"""By dotted name, the value of each run."""


class Result(Scored):
    """What a run reached and took, as far as it is known."""

    model_config = ConfigDict(extra="allow")

    problems: int | None
    scores: dict[str, Interval]

    def value(self, name: str) -> Interval | float | None:
        """A score, or another figure by its name: `problems`, or one of `TOTALS`."""
        return self.scores.get(name) or getattr(self, name, None)


class Paired(Scored):
    """The differences of a run from the first one, problem by problem."""

    run: str
    why_not: str = ""
    """Why the two cannot be compared; empty = they can."""
    problems: int = 0
    scores: dict[str, Difference] = Field(default_factory=dict[str, Difference])


class RunDiff(RunRecord):
    """Two runs or more against the first."""

    runs: list[Entry]
    recipe: Differing
    environment: Differing
    data: Differing
    results: list[Result]
    paired: list[Paired]
    """Of each run but the first."""


def difference(runs: Sequence[Path]) -> RunDiff:
    """Two runs or more against the first."""
    recipes = [read_record(run / "recipe.toml", RecipeRecord, strict=False) for run in runs]
    environments = [read_environment(run) for run in runs]
    places = [e.model_dump(exclude={"command", "data"}, exclude_unset=True) for e in environments]
    return RunDiff(
        runs=[entry(run, "eval/after.jsonl") for run in runs],
        recipe=differing([recipe.to_json() if recipe else {} for recipe in recipes]),
        environment=differing(places),
        data=differing([environment.data.to_json() for environment in environments]),
        results=[_result(run) for run in runs],
        paired=[_paired(run, runs[0]) for run in runs[1:]],
    )


def _evaluation(run: Path) -> Evaluation | None:
    """Return the evaluation after training; None where it is damaged or missing."""
    evaluation = read_record(run / "eval" / "after.json", Evaluation, strict=False)
    if evaluation is None or len(evaluation.correct) != evaluation.problems:
        return None
    return evaluation if all(0 <= right <= evaluation.n for right in evaluation.correct) else None


def _result(run: Path) -> Result:
    summary = read_record(run / "summary.json", Summary, strict=False)
    evaluation = _evaluation(run)
    scores = evaluation.scores if evaluation else {}
    return Result(
        problems=evaluation.problems if evaluation else None,
        scores={name: score for name, score in scores.items() if score},
        **(summary.model_dump(include=set(TOTALS), exclude_unset=True) if summary else {}),
    )


def _paired(run: Path, first: Path) -> Paired:
    after, before = _evaluation(run), _evaluation(first)
    if after is None or before is None:
        missing = run if after is None else first
        return Paired(run=str(run), why_not=f"{missing} has no evaluation after training")
    results = after, before
    settings = [{"benchmark": e.benchmark, **e.settings.model_dump(include=ALIKE)} for e in results]
    if unlike := differing(settings):
        why_not = f"they were evaluated with another {', '.join(unlike)}"
        return Paired(run=str(run), why_not=why_not)
    heldout, other = (read_environment(folder).data.heldout for folder in (run, first))
    if heldout is None or heldout != other or after.problems != before.problems:
        return Paired(run=str(run), why_not="they were evaluated on other problems")
    scores: dict[str, Difference] = {}
    ks = [{k for k in passes_by_k(e.passes) if k <= e.n} for e in results]
    for k in sorted(ks[0] & ks[1]):
        values = [pass_at_k(e.n, np.array(e.correct), k) for e in results]
        scores[f"pass@{k}"] = paired(values[0], values[1])
    return Paired(run=str(run), problems=after.problems, scores=scores)

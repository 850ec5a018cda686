"""The finished runs of a comparison: whether they are as they began, and their files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ictcli.compare.design import RunSpec
from ictcli.compare.folder import OTHER
from ictcli.compare.launch import Summaries
from ictcli.compare.variants import Variant
from ictcli.errors import UserError
from ictcli.evaluation.record import Evaluation
from ictcli.files.origin import Origin
from ictcli.recipe import read_recipe
from ictcli.runs import manifest, origin
from ictcli.runs.read import read_environment, read_lines, read_record
from ictcli.runs.records import StepMetrics, StepTimings, Summary
from ictcli.tasks.prepare import described, heldout, task_of
from ictcli.text import shell_word
from ictcli.types import FloatArray

PREPARED = {"task", "data", "columns", "hub", "reward", "prompt", "eval", "sft"}
"""The settings that decide the problems, besides the seed of `prompt.shots`."""


def check_began(runs: Sequence[RunSpec]) -> None:
    """Raise UserError if the recipe, a verifier's file, the model or the problems of a finished run
    changed since it began: it could not be continued either. Problems are not looked at under
    `prompt.max_tokens`, which takes an engine."""

    of_model = cache(origin.of_model)
    problems: dict[tuple[str, int | None], Origin] = {}
    for spec in runs:
        folder, recipe = spec.folder, spec.recipe
        if not (folder / "summary.json").exists():
            continue
        began = read_environment(folder)
        now: dict[str, Any] = {}
        if began.recipe_sha256:
            file = read_recipe(folder / "recipe.toml").data
            now["recipe"] = origin.of_recipe(file, began)
        if began.model.sha256:
            now |= of_model(recipe.model)
        if began.data.heldout and not recipe.prompt.max_tokens:
            seed = recipe.seed if recipe.prompt.shots else None
            key = recipe.model_dump_json(include=PREPARED), seed
            if key not in problems:
                task = task_of(recipe)
                data = described(task, heldout(recipe, task))
                problems[key] = origin.of_problems(data)
            now |= problems[key]
        try:
            origin.check_same(folder, began, now)
        except UserError as error:
            raise UserError(
                error.message,
                f"put that back; or rm -r {shell_word(folder)} trains the run again; {OTHER}",
            ) from None


@dataclass(frozen=True)
class FinishedRun:
    """A finished run, and its files that a comparison reads."""

    spec: RunSpec
    summary: Summary
    before: Evaluation
    after: Evaluation
    metrics: Sequence[StepMetrics]
    """One a step, 1, 2, ..."""
    timings: Sequence[StepTimings]

    def series(self, name: str) -> FloatArray:
        """Return the (steps,) values of a metric; NaN where it does not exist."""
        return np.array([line.value(name) for line in self.metrics], dtype=np.float64)


Runs = Mapping[str, Sequence[FinishedRun]]
"""By label the finished runs of a variant, at least one."""


def name_of(model: str) -> str:
    """Return a base model as reports name it: a folder below the working directory by its path from
    there, which says nothing of the machine."""
    path, here = Path(model), Path.cwd()
    inside = path.is_absolute() and path.is_relative_to(here)
    return path.relative_to(here).as_posix() if inside else model


def by_label(variants: Sequence[Variant], done: Sequence[FinishedRun]) -> Runs:
    """Return the runs of the variants with a finished one."""
    runs = {each.label: [run for run in done if run.spec.variant == each] for each in variants}
    return {label: finished for label, finished in runs.items() if finished}


def read_all(runs: Sequence[RunSpec], summaries: Summaries) -> tuple[list[FinishedRun], list[str]]:
    """Return the finished runs, and a sentence for each with a missing or damaged file."""
    done: list[FinishedRun] = []
    failed: list[str] = []
    for number, spec in enumerate(runs, 1):
        if spec.folder not in summaries:
            continue
        try:
            done.append(_read(spec, summaries[spec.folder]))
        except ValueError as error:
            again = f"rm -r {shell_word(spec.folder)} trains it again"
            failed.append(f"run {number}/{len(runs)}: {spec.name}: {error}; {again}")
    return done, failed


def _read(spec: RunSpec, summary: Summary) -> FinishedRun:
    """Return the files of a run. ValueError, naming the file, if one is missing or damaged."""
    folder, recipe = spec.folder, spec.recipe
    before, after = (
        read_record(folder / "eval" / name, Evaluation, strict=False)
        for name in ("before.json", "after.json")
    )
    metrics = read_lines(folder / "metrics.jsonl", StepMetrics)
    timed = read_lines(folder / "timings.jsonl", StepTimings)
    timings = [line for line in timed if line.seconds is not None]
    heldout = read_environment(folder).data.heldout
    problems = heldout.problems if heldout else 0
    passes = all(f"pass@{k}" in summary.after for k in recipe.eval.k)
    steps = list(range(1, recipe.steps + 1))
    is_whole = {
        "environment.json": heldout is not None,
        "eval/before.json": _is_whole(before, recipe.eval.n, problems),
        "eval/after.json": _is_whole(after, recipe.eval.n, problems),
        "metrics.jsonl": [line.step for line in metrics] == steps,
        "timings.jsonl": [line.step for line in timings] == steps,
        "summary.json": summary.steps == recipe.steps and summary.train_s is not None and passes,
    }
    for path in [folder / name for name, whole in is_whole.items() if not whole]:
        raise ValueError(f"{path} is {'damaged' if path.exists() else 'missing'}")
    for name, why in manifest.altered(folder, *is_whole).items():
        raise ValueError(f"{folder / name} {why}")
    assert before and after
    return FinishedRun(spec, summary, before, after, metrics, timings)


def _is_whole(evaluation: Evaluation | None, n: int, problems: int) -> bool:
    """Return whether each of these problems has a count of `n` samples."""
    if evaluation is None or evaluation.n != n or not problems:
        return False
    whole = len(evaluation.correct) == evaluation.problems == problems
    return whole and all(0 <= count <= n for count in evaluation.correct)

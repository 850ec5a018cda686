"""Read the finished runs of a comparison, and check that their inputs have not changed."""

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
"""Recipe keys that decide the held-out problems; if `prompt.shots` is set, so does the seed."""


def check_began(runs: Sequence[RunSpec]) -> None:
    """Raise UserError if the recipe, a verifier's file, the model or the problems of a finished run
    have changed since its start. If `prompt.max_tokens` is set, the problems are not checked."""
    of_model = cache(origin.of_model)
    problems: dict[tuple[str, int | None], Origin] = {}
    for spec in runs:
        folder, recipe = spec.folder, spec.recipe
        if not (folder / "summary.json").exists():
            continue
        environment = read_environment(folder)
        now: dict[str, Any] = {}
        if environment.recipe_sha256:
            file = read_recipe(folder / "recipe.toml").data
            now["recipe"] = origin.of_recipe(file, environment)
        if environment.model.sha256:
            now |= of_model(recipe.model)
        if environment.data.heldout and not recipe.prompt.max_tokens:
            seed = recipe.seed if recipe.prompt.shots else None
            key = recipe.model_dump_json(include=PREPARED), seed
            if key not in problems:
                task = task_of(recipe)
                data = described(task, heldout(recipe, task))
                problems[key] = origin.of_problems(data)
            now |= problems[key]
        try:
            origin.check_same(folder, environment, now)
        except UserError as error:
            raise UserError(
                error.message,
                f"undo the change; or remove the run: rm -r {shell_word(folder)}; or {OTHER}",
            ) from None


@dataclass(frozen=True)
class FinishedRun:
    """A finished run with the content of the files that a comparison reads."""

    spec: RunSpec
    summary: Summary
    before: Evaluation
    after: Evaluation
    metrics: Sequence[StepMetrics]
    """One record per step, from step 1."""
    timings: Sequence[StepTimings]

    def series(self, name: str) -> FloatArray:
        """Return the values (steps,) of a metric; NaN at steps that have none."""
        return np.array([line.value(name) for line in self.metrics], dtype=np.float64)


Runs = Mapping[str, Sequence[FinishedRun]]
"""The finished runs of each variant, at least one, by label."""


def name_of(model: str) -> str:
    """Return the name of a base model in reports. A path below the working directory is made
    relative to it, so that reports do not reveal the machine's folders."""
    path, here = Path(model), Path.cwd()
    inside = path.is_absolute() and path.is_relative_to(here)
    return path.relative_to(here).as_posix() if inside else model


def by_label(variants: Sequence[Variant], done: Sequence[FinishedRun]) -> Runs:
    """Return the finished runs by variant label, without variants that have none."""
    runs = {v.label: [run for run in done if run.spec.variant == v] for v in variants}
    return {label: finished for label, finished in runs.items() if finished}


def read_all(runs: Sequence[RunSpec], summaries: Summaries) -> tuple[list[FinishedRun], list[str]]:
    """Return the finished runs, and a message for each run with a missing or damaged file."""
    done: list[FinishedRun] = []
    failed: list[str] = []
    for number, spec in enumerate(runs, 1):
        if spec.folder not in summaries:
            continue
        try:
            done.append(_read(spec, summaries[spec.folder]))
        except ValueError as error:
            again = f"the same command trains it again after: rm -r {shell_word(spec.folder)}"
            failed.append(f"run {number}/{len(runs)}: {spec.name}: {error}; {again}")
    return done, failed


def _read(spec: RunSpec, summary: Summary) -> FinishedRun:
    """Return a run with its files. ValueError naming the file if one is missing or damaged."""
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
    """Return whether an evaluation has results of `n` samples for each of `problems` problems."""
    if evaluation is None or evaluation.n != n or not problems:
        return False
    whole = len(evaluation.correct) == evaluation.problems == problems
    return whole and all(0 <= count <= n for count in evaluation.correct)

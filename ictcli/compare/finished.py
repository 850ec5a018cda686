"""The finished runs of a comparison: their files, read and checked."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ictcli.compare.design import RunSpec
from ictcli.compare.launch import Summaries
from ictcli.compare.variants import Variant
from ictcli.evaluation.record import Record
from ictcli.recipe import Recipe
from ictcli.runs import manifest
from ictcli.runs.read import read_environment, read_lines, read_record
from ictcli.runs.records import StepMetrics, StepTimings, Summary
from ictcli.text import shell_word
from ictcli.types import FloatArray


class Counts(Record):
    """The correct samples of an evaluation, of `n` a problem; nothing of an unreadable one."""

    n: int = 0
    problems: int = 0
    correct: Sequence[int] = ()
    unparsed: float = 0.0
    """Share of samples without a readable answer."""

    def is_whole(self, n: int, problems: int) -> bool:
        """Whether each of so many problems has a count of `n` samples."""
        counted = len(self.correct) == self.problems == problems > 0
        return counted and self.n == n and all(0 <= count <= n for count in self.correct)


@dataclass(frozen=True)
class FinishedRun:
    """A run that went to its end, and the files that a comparison is made of."""

    spec: RunSpec
    summary: Summary
    before: Counts
    after: Counts
    metrics: Sequence[StepMetrics]
    """One a step, 1, 2, ..."""
    timings: Sequence[StepTimings]

    @property
    def label(self) -> str:
        return self.spec.variant.label

    @property
    def is_dense(self) -> bool:
        """Whether the dense warm-up takes every step: the run trained as grpo."""
        return self.spec.recipe.dense_steps >= self.spec.recipe.steps

    def series(self, name: str, start: int = 0) -> FloatArray:
        """(steps - start,) values of a metric; NaN where it does not exist."""
        values = [line.value(name) for line in self.metrics[start:]]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


@dataclass(frozen=True)
class VariantRuns:
    """The finished runs of a variant, at least one."""

    variant: Variant
    runs: Sequence[FinishedRun]

    @property
    def recipe(self) -> Recipe:
        """Of its first run."""
        return self.runs[0].spec.recipe

    @property
    def is_dense(self) -> bool:
        return self.runs[0].is_dense


def by_variant(variants: Sequence[Variant], done: Sequence[FinishedRun]) -> list[VariantRuns]:
    """The variants with a finished run."""
    found = [(each, [run for run in done if run.spec.variant == each]) for each in variants]
    return [VariantRuns(variant, runs) for variant, runs in found if runs]


def read_all(runs: Sequence[RunSpec], summaries: Summaries) -> tuple[list[FinishedRun], list[str]]:
    """The finished runs, and a sentence for each run of which a file is missing or damaged."""
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
    """The files of a run. ValueError, naming the file, if one is missing or damaged."""
    folder, recipe = spec.folder, spec.recipe
    before, after = (
        read_record(folder / "eval" / name, Counts, strict=False) or Counts()
        for name in ("before.json", "after.json")
    )
    metrics = read_lines(folder / "metrics.jsonl", StepMetrics)
    timings = read_lines(folder / "timings.jsonl", StepTimings)
    heldout = read_environment(folder).data.heldout
    problems = heldout.problems if heldout else 0
    passes = all(f"pass@{k}" in summary.after for k in recipe.eval.k)
    steps = list(range(1, recipe.steps + 1))
    is_whole = {
        "environment.json": heldout is not None,
        "eval/before.json": before.is_whole(recipe.eval.n, problems),
        "eval/after.json": after.is_whole(recipe.eval.n, problems),
        "metrics.jsonl": [line.step for line in metrics] == steps,
        "timings.jsonl": [line.step for line in timings if line.seconds is not None] == steps,
        "summary.json": summary.steps == recipe.steps and summary.train_s is not None and passes,
    }
    for path in [folder / name for name, whole in is_whole.items() if not whole]:
        raise ValueError(f"{path} is {'damaged' if path.exists() else 'missing'}")
    for name, why in manifest.altered(folder, *is_whole).items():
        raise ValueError(f"{folder / name} {why}")
    return FinishedRun(spec, summary, before, after, metrics, timings)

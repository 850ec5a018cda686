"""The finished runs of a comparison: their files, read and checked, and what they trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ictcli.compare.claims import Trained
from ictcli.compare.design import RunSpec
from ictcli.compare.launch import Summaries
from ictcli.compare.variants import method_of
from ictcli.evaluation.record import Record
from ictcli.runs import manifest
from ictcli.runs.read import read_environment, read_lines, read_record
from ictcli.runs.records import StepMetrics, StepTimings, Summary
from ictcli.text import shell_word
from ictcli.types import FloatArray

FORK_METHODS = ("ict", "random", "entropy20")


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


def trained_shares(done: Sequence[FinishedRun], label: str) -> Trained:
    """The shares of tokens that a variant's runs trained."""
    runs = [run for run in done if run.label == label]
    chosen = [run.summary.kept_tokens for run in runs if not run.is_dense]
    known = [means["share_kept"] for means in chosen if "share_kept" in means]
    whole = float(np.mean([run.summary.tokens_kept_share for run in runs]))
    return Trained(whole, float(np.mean(known)) if known else None)


def fork_recalls(
    done: Sequence[FinishedRun], seeds: Sequence[int]
) -> tuple[Mapping[str, list[float]], dict[str, float]]:
    """By variant of FORK_METHODS: the recall of the true forks while training, a mean for each seed
    (NaN without its run), and the share of tokens kept in the same steps. Both are of the steps
    after every variant's dense warm-up; runs that are dense in every step are left out."""
    runs = [run for run in done if method_of(run.label) in FORK_METHODS and not run.is_dense]
    warmup = max((run.spec.recipe.dense_steps for run in runs), default=0)
    recalls: dict[str, list[float]] = {}
    kept: dict[str, list[float]] = {}
    for run in runs:
        curve = run.series("fork_recall", warmup)
        if (~np.isnan(curve)).any():
            values = recalls.setdefault(run.label, [np.nan] * len(seeds))
            values[seeds.index(run.spec.seed)] = float(np.nanmean(curve))
            share = np.nanmean(run.series("share_kept", warmup))
            kept.setdefault(run.label, []).append(float(share))
    return recalls, {label: float(np.mean(shares)) for label, shares in kept.items()}


def unparsed_shares(done: Sequence[FinishedRun], seeds: Sequence[int]) -> dict[str, FloatArray]:
    """By variant the shares of samples without a readable answer after training, (seeds,) each; NaN
    where a run is missing."""
    shares = {run.label: np.full(len(seeds), np.nan) for run in done}
    for run in done:
        shares[run.label][seeds.index(run.spec.seed)] = run.after.unparsed
    return shares

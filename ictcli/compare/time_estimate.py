"""How much time and disk a comparison will take, from timed steps of each kind of run."""

import heapq
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ictcli.compare.design import RunSpec
from ictcli.errors import RunFailedError, UserError
from ictcli.evaluation.record import Record
from ictcli.files import numbered
from ictcli.recipe import Recipe
from ictcli.runs import is_run
from ictcli.train.costs import RunCosts, measure
from ictcli.train.launch import failure_message


def kind(recipe: Recipe) -> str:
    """Return the settings that decide the time of a step: recipes of one kind are timed once."""
    free = {"seed", "steps", "lr", "eval", "checkpoint", "record", "alarms", "clip", "optimizer"}
    return repr(recipe.model_dump(exclude=free | {"warmup"}))


def measure_all(runs: Sequence[RunSpec], say: Callable[[str], None]) -> dict[str, RunCosts]:
    """Time one run of each kind that has unfinished runs. Raises InterruptedRunError at Ctrl-C, and
    RunFailedError, naming the run, where one cannot be timed."""
    first: dict[str, RunSpec] = {}
    for spec in runs:
        if not _is_finished(spec):
            first.setdefault(kind(spec.recipe), spec)
    measured: dict[str, RunCosts] = {}
    for number, (settings, spec) in enumerate(first.items(), 1):
        say(f"timing {number}/{len(first)}: {spec.variant.label}")
        try:
            measured[settings] = measure(spec.recipe)
        except Exception as error:  # a model's, a method's, a verifier's
            if isinstance(error, UserError) and not isinstance(error, RunFailedError):
                raise  # its hint is of the recipe, not of the folder
            hint = "without --dry-run it would be reported, and the other runs go on"
            if isinstance(error, OSError):
                hint = "TMPDIR=FOLDER has the steps to be timed written elsewhere"
            why = failure_message(error)
            raise RunFailedError(f"{spec.name} cannot be timed: {why}", hint) from error
    return measured


class RunEstimate(Record):
    """What one run will still take: nothing, if it is finished."""

    folder: Path
    label: str
    method: str
    seed: int
    trying: str | None
    steps: int
    steps_done: int
    lr: float | None
    """None if tuning is still to choose it."""
    untuned: str | None
    finished: bool
    seconds: float
    bytes: int


class ComparisonEstimate(Record):
    """What is left to do."""

    runs: list[RunEstimate]
    left: int
    at_once: int
    """Runs that the machine can work on side by side, at most `jobs`."""
    seconds: float
    bytes: int
    measured: list[RunCosts]


def estimate_comparison(
    runs: Sequence[RunSpec], measured: Mapping[str, RunCosts], jobs: int, cores: int | None = None
) -> ComparisonEstimate:
    """Estimate what the unfinished runs will take, `jobs` at a time. Each is a process that loads
    its libraries, as the first one timed did. Runs were timed alone, so no more of them count as
    parallel than the machine has cores for. Tuning runs end before the others begin."""
    if cores is None:  # macOS knows no affinity
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    load = max((costs.load for costs in measured.values()), default=0.0)
    threads = max((spec.recipe.engine.threads or cores for spec in runs), default=1)
    at_once = max(1, min(jobs, cores // threads))
    estimates = [_estimate(spec, measured.get(kind(spec.recipe)), load) for spec in runs]
    seconds = 0.0
    for trying in (True, False):  # in order, each in the lane that is free first
        ends = [0.0] * at_once
        for run in estimates:
            if bool(run.trying) is trying:
                heapq.heapreplace(ends, ends[0] + run.seconds)
        seconds += max(ends)
    return ComparisonEstimate(
        runs=estimates,
        left=sum(not run.finished for run in estimates),
        at_once=at_once,
        seconds=seconds,
        bytes=sum(run.bytes for run in estimates),
        measured=list(measured.values()),
    )


def _is_finished(spec: RunSpec) -> bool:
    return (spec.folder / "summary.json").is_file()


def _estimate(spec: RunSpec, costs: RunCosts | None, load: float) -> RunEstimate:
    recipe, finished = spec.recipe, _is_finished(spec)
    if finished:
        costs = None
    saved = numbered(spec.folder / "checkpoints", r"step-(\d+)")
    done = min(saved[-1][0], recipe.steps) if saved else 0
    is_new = not (done and is_run(spec.folder))
    return RunEstimate(
        folder=spec.folder,
        label=spec.variant.label,
        method=recipe.rule.name,
        seed=spec.seed,
        trying=spec.trying or None,
        steps=recipe.steps,
        steps_done=recipe.steps if finished else done,
        lr=None if spec.untuned == "lr" else recipe.lr,
        untuned=spec.untuned or None,
        finished=finished,
        seconds=load + costs.time(recipe, done).seconds if costs else 0.0,
        bytes=costs.bytes(recipe) if costs and is_new else 0,
    )

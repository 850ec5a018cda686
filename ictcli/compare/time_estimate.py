"""Estimate the time of a comparison from a timed part of a step of each kind of run."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ictcli.compare.design import RunSpec
from ictcli.errors import RunFailedError, UserError
from ictcli.evaluation.record import Record
from ictcli.files import numbered
from ictcli.planning.time_estimate import TimeEstimate, estimate_time
from ictcli.recipe import Recipe
from ictcli.train.check import check
from ictcli.train.launch import failure_message

Timed = tuple[float, TimeEstimate]
"""Seconds to load the model, and the estimated time of a run."""
PROMPTS = 8
"""Largest number of prompts in a timed step."""


class RunEstimate(Record):
    """A run with the seconds that it still needs: 0 if it is finished."""

    folder: Path
    label: str
    seed: int
    steps: int
    lr: float | None
    """The learning rate; None if tuning has yet to choose it."""
    finished: bool
    seconds: float


class ComparisonEstimate(Record):
    """The runs of a comparison and the seconds that they still need."""

    runs: list[RunEstimate]
    at_once: int
    """Number of runs that the machine can train in parallel, at most `jobs`."""
    seconds: float
    kinds: int
    """Number of different kinds of run that were timed (see `kind`)."""


def kind(recipe: Recipe) -> str:
    """Return the settings that decide a step's time, as text. One run of each kind is timed."""
    free = {"seed", "steps", "lr", "eval", "checkpoint", "record", "alarms", "clip", "optimizer"}
    return repr(recipe.model_dump(exclude=free | {"warmup"}))


def measure_all(runs: Sequence[RunSpec], say: Callable[[str], None]) -> dict[str, Timed]:
    """Return the times of one unfinished run of each kind. Raises RunFailedError, naming the run,
    if it cannot be timed."""
    specs = {kind(spec.recipe): spec for spec in reversed(runs) if not _is_finished(spec)}
    measured: dict[str, Timed] = {}
    for number, (settings, spec) in enumerate(specs.items(), 1):
        say(f"timing {number}/{len(specs)}: {spec.variant.label}")
        try:
            measured[settings] = measure(spec.recipe)
        except Exception as error:  # models, methods and verifiers may raise any
            if isinstance(error, UserError) and not isinstance(error, RunFailedError):
                raise  # its hint already says what to change in the recipe
            hint = "without --dry-run the failure is reported, and the other runs continue"
            why = failure_message(error)
            raise RunFailedError(f"{spec.name} cannot be timed: {why}", hint) from error
    return measured


def measure(recipe: Recipe) -> Timed:
    """Return the load time and time estimate of a run, from a part of a step (see `ictcli
    check`)."""
    checked = check(recipe, math.inf, lambda text: None, most=PROMPTS)
    if checked.tried and checked.tried.interrupted:
        raise KeyboardInterrupt
    if checked.tried is None or checked.tried.time is None:
        raise RunFailedError(checked.memory.sentence)
    return checked.tried.load_s, checked.tried.time


def estimate_comparison(
    runs: Sequence[RunSpec], measured: Mapping[str, Timed], jobs: int, cores: int | None = None
) -> ComparisonEstimate:
    """Return the time that the unfinished runs need, `jobs` at a time. Each run is assumed to load
    as slowly as the slowest. Runs were timed one at a time, so no more are assumed in parallel than
    the cores allow."""
    if cores is None:  # macOS has no CPU affinity
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    load = max((load for load, _ in measured.values()), default=0.0)
    threads = max((spec.recipe.engine.threads or cores for spec in runs), default=1)
    at_once = max(1, min(jobs, cores // threads))
    estimates: list[RunEstimate] = []
    for spec in runs:
        recipe, finished, seconds = spec.recipe, _is_finished(spec), 0.0
        if not finished and (timed := measured.get(kind(recipe))):
            saved = numbered(spec.folder / "checkpoints", r"step-(\d+)")
            done = min(saved[-1][0], recipe.steps) if saved else 0
            _, time = timed
            seconds = load + estimate_time(recipe, time.step, time.evaluation, done).seconds
        run = RunEstimate(
            folder=spec.folder,
            label=spec.variant.label,
            seed=spec.seed,
            steps=recipe.steps,
            lr=None if spec.untuned == "lr" else recipe.lr,
            finished=finished,
            seconds=seconds,
        )
        estimates.append(run)
    seconds = sum(run.seconds for run in estimates) / at_once
    return ComparisonEstimate(runs=estimates, at_once=at_once, seconds=seconds, kinds=len(measured))


def _is_finished(spec: RunSpec) -> bool:
    return (spec.folder / "summary.json").is_file()

"""How much time and disk a comparison will take, by two timed steps of each kind of run."""

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ictcli.compare.design import RunSpec
from ictcli.errors import InterruptedRunError, RunFailedError, UserError
from ictcli.evaluation.record import Evaluation, Record
from ictcli.files import numbered
from ictcli.planning.time_estimate import estimate_time
from ictcli.recipe import Recipe
from ictcli.recipe.data import SftSettings
from ictcli.runs import Run, is_run
from ictcli.runs.observer import Observer
from ictcli.runs.read import read_lines, size
from ictcli.runs.records import StepTimings
from ictcli.train.launch import failure_message, launch

PROBLEMS = 32
"""Evaluated at most, to measure what a problem takes."""


@dataclass(frozen=True)
class RunCosts:
    """Seconds and bytes of a run's parts."""

    load: float
    step: float
    problem: float
    model: int
    checkpoint: int


class RunEstimate(Record):
    """What one run will still take: nothing, if it is finished."""

    folder: Path
    label: str
    seed: int
    steps: int
    lr: float | None
    """None if tuning is still to choose it."""
    finished: bool
    seconds: float
    bytes: int


class ComparisonEstimate(Record):
    """What is left to do."""

    runs: list[RunEstimate]
    at_once: int
    """Runs that the machine can work on side by side, at most `jobs`."""
    seconds: float
    bytes: int
    kinds: int
    """Kinds of run that were timed."""


def kind(recipe: Recipe) -> str:
    """Return the settings that decide the time of a step: recipes of one kind are timed once."""
    free = {"seed", "steps", "lr", "eval", "checkpoint", "record", "alarms", "clip", "optimizer"}
    return repr(recipe.model_dump(exclude=free | {"warmup"}))


def measure_all(runs: Sequence[RunSpec], say: Callable[[str], None]) -> dict[str, RunCosts]:
    """Time one run of each kind that has unfinished runs. Raises InterruptedRunError at Ctrl-C, and
    RunFailedError, naming the run, where one cannot be timed."""
    specs = {kind(spec.recipe): spec for spec in reversed(runs) if not _is_finished(spec)}
    measured: dict[str, RunCosts] = {}
    for number, (settings, spec) in enumerate(specs.items(), 1):
        say(f"timing {number}/{len(specs)}: {spec.variant.label}")
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


def measure(recipe: Recipe) -> RunCosts:
    """Time two steps and two short evaluations in a temporary folder, without a dense warm-up; the
    second step counts, since libraries warm up in the first. InterruptedRunError at Ctrl-C."""
    problems = min(PROBLEMS, recipe.eval.problems)
    short = recipe.model_copy(
        update={
            "steps": 2,
            "warmup": 0,
            "eval": recipe.eval.model_copy(update={"problems": problems, "every": 0}),
            "checkpoint": recipe.checkpoint.model_copy(update={"every": 2, "last": 1}),
            "log": (),
            "sft": SftSettings(),
        }
    )
    try:
        with tempfile.TemporaryDirectory(prefix="ictcli-") as name:
            folder = Path(name) / "run"
            started = time.perf_counter()
            with Run.create(folder, short) as run, Observer() as observer:
                launch(run, short, observer)
                whole = time.perf_counter() - started
            steps = [s.seconds or 0.0 for s in read_lines(folder / "timings.jsonl", StepTimings)]
            before, after = (
                Evaluation.model_validate_json((folder / "eval" / f"{label}.json").read_bytes())
                for label in ("before", "after")
            )
            return RunCosts(
                load=max(whole - sum(steps) - before.seconds_in_all - after.seconds_in_all, 0.0),
                step=steps[-1],
                problem=after.seconds_in_all / after.problems,
                model=size(folder / ("adapter" if recipe.adapters else "model")),
                checkpoint=size(folder / "checkpoints"),
            )
    except (InterruptedRunError, KeyboardInterrupt):
        raise InterruptedRunError(
            "Interrupted while timing; nothing of it is kept.",
            "the same command times again; without --dry-run it trains",
        ) from None


def estimate_comparison(
    runs: Sequence[RunSpec], measured: Mapping[str, RunCosts], jobs: int, cores: int | None = None
) -> ComparisonEstimate:
    """Estimate what the unfinished runs will take, `jobs` at a time. Each is a process that loads
    its libraries, as the slowest to load did. Runs were timed alone, so no more of them count as
    parallel than the machine has cores for."""
    if cores is None:  # macOS knows no affinity
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    load = max((costs.load for costs in measured.values()), default=0.0)
    threads = max((spec.recipe.engine.threads or cores for spec in runs), default=1)
    at_once = max(1, min(jobs, cores // threads))
    estimates = [_estimate(spec, measured.get(kind(spec.recipe)), load) for spec in runs]
    return ComparisonEstimate(
        runs=estimates,
        at_once=at_once,
        seconds=sum(run.seconds for run in estimates) / at_once,
        bytes=sum(run.bytes for run in estimates),
        kinds=len(measured),
    )


def _is_finished(spec: RunSpec) -> bool:
    return (spec.folder / "summary.json").is_file()


def _estimate(spec: RunSpec, costs: RunCosts | None, load: float) -> RunEstimate:
    recipe, finished = spec.recipe, _is_finished(spec)
    seconds, disk = 0.0, 0
    if costs and not finished:
        saved = numbered(spec.folder / "checkpoints", r"step-(\d+)")
        done = min(saved[-1][0], recipe.steps) if saved else 0
        asked = recipe.eval.problems * costs.problem
        seconds = load + estimate_time(recipe, costs.step, asked, done).seconds
        checkpoints = min(recipe.checkpoint.last, -(-recipe.steps // recipe.checkpoint.every))
        checkpoints += recipe.checkpoint.best is not None
        if not (done and is_run(spec.folder)):
            disk = costs.model + checkpoints * costs.checkpoint
    return RunEstimate(
        folder=spec.folder,
        label=spec.variant.label,
        seed=spec.seed,
        steps=recipe.steps,
        lr=None if spec.untuned == "lr" else recipe.lr,
        finished=finished,
        seconds=seconds,
        bytes=disk,
    )

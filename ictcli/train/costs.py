"""What a run costs in time and disk, measured by two steps of it."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ictcli.errors import InterruptedRunError
from ictcli.evaluation.record import Evaluation
from ictcli.planning.time_estimate import TimeEstimate, estimate_time
from ictcli.recipe import Recipe
from ictcli.recipe.data import SftSettings
from ictcli.runs import Run
from ictcli.runs.observer import Observer
from ictcli.runs.read import read_lines, size
from ictcli.runs.records import StepTimings
from ictcli.train.launch import launch

PROBLEMS = 32
"""Evaluated at most, to measure what a problem takes."""


@dataclass(frozen=True)
class RunCosts:
    """Seconds and bytes of one run's parts."""

    load: float
    """To load the model and, in the first run of a process, the libraries."""
    step: float
    problem: float
    model: int
    checkpoint: int
    rollouts: int

    def time(self, recipe: Recipe, done: int = 0) -> TimeEstimate:
        """Estimate what is left of a run after `done` steps, its model loaded."""
        evaluation = recipe.eval.problems * self.problem
        return estimate_time(recipe, step=self.step, evaluation=evaluation, done=done)

    def bytes(self, recipe: Recipe) -> int:
        """Return the bytes of a run's folder."""
        every = recipe.record.rollouts_every
        kept = min(recipe.checkpoint.last, -(-recipe.steps // recipe.checkpoint.every))
        kept += recipe.checkpoint.best is not None
        recorded = -(-recipe.steps // every) if every else 0
        return self.model + kept * self.checkpoint + recorded * self.rollouts


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
            "record": recipe.record.model_copy(update={"rollouts_every": 2}),
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
                rollouts=size(folder / "rollouts"),
            )
    except (InterruptedRunError, KeyboardInterrupt):
        raise InterruptedRunError(
            "Interrupted while timing; nothing of it is kept.",
            "the same command times again; without --dry-run it trains",
        ) from None

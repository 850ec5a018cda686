"""The time and the disk that a comparison will take, from two measured steps of one run."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ictcli.compare.plan import Member
from ictcli.console.plain import RunWatcher
from ictcli.launch import launch
from ictcli.recipe import Recipe
from ictcli.runs import Run, is_run

PROBLEMS = 32
"""Evaluated at most, to measure what a problem takes."""


@dataclass(frozen=True)
class Measured:
    """Seconds and bytes of one run's parts."""

    load: float
    step: float
    problem: float
    model: int
    checkpoint: int
    rollouts: int

    def seconds(self, recipe: Recipe) -> float:
        """Of a whole run: its steps, and its evaluations before, after and between."""
        every = recipe.eval.every
        between = (recipe.steps - 1) // every if every else 0
        asked = (2 + between) * recipe.eval.problems * self.problem
        return self.load + recipe.steps * self.step + asked

    def bytes(self, recipe: Recipe) -> int:
        every = recipe.record.rollouts_every
        kept = min(recipe.checkpoint.last, -(-recipe.steps // recipe.checkpoint.every))
        kept += recipe.checkpoint.best is not None
        recorded = recipe.steps // every if every else 0
        return self.model + kept * self.checkpoint + recorded * self.rollouts


def measure(recipe: Recipe) -> Measured:
    """Two steps and two short evaluations in a folder that is thrown away; the second step counts,
    since the first compiles and warms up."""
    problems = min(PROBLEMS, recipe.eval.problems)
    short = recipe.model_copy(
        update={
            "steps": 2,
            "eval": recipe.eval.model_copy(update={"problems": problems, "every": 0}),
            "checkpoint": recipe.checkpoint.model_copy(update={"every": 2, "last": 1}),
            "record": recipe.record.model_copy(update={"rollouts_every": 2}),
        }
    )
    with tempfile.TemporaryDirectory(prefix="ictcli-") as name:
        folder = Path(name) / "run"
        started = time.perf_counter()
        with Run.create(folder, short) as run, RunWatcher(short, folder) as watch:
            launch(run, short, watch, watch.attach)
            whole = time.perf_counter() - started
            timings = [json.loads(line) for line in (folder / "timings.jsonl").open()]
            asked: list[Any] = [run.read(f"eval/{label}.json") for label in ("before", "after")]
        steps = [one["sample_s"] + one["update_s"] for one in timings]
        evaluated = sum(one["seconds"] for one in asked)
        made = folder / ("adapter" if recipe.adapters else "model")
        return Measured(
            load=max(whole - sum(steps) - evaluated, 0.0),
            step=steps[-1],
            problem=asked[-1]["seconds"] / asked[-1]["problems"],
            model=_size(made),
            checkpoint=_size(folder / "checkpoints"),
            rollouts=_size(folder / "rollouts"),
        )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@dataclass(frozen=True)
class Outlook:
    """What is left to do."""

    runs: int
    seconds: float
    bytes: int


def look_ahead(runs: Sequence[Member], measured: Measured, jobs: int) -> Outlook:
    """Of the runs that are not finished; `jobs` at a time share the machine, so that their time
    is divided only as far as it has cores for them."""
    left = [one for one in runs if not (one.folder / "summary.json").is_file()]
    seconds = sum(measured.seconds(one.recipe) for one in left) / min(jobs, max(len(left), 1))
    new = [one for one in left if not is_run(one.folder)]
    return Outlook(len(left), seconds, sum(measured.bytes(one.recipe) for one in new))

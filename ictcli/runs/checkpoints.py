"""Checkpoints: what a run resumes from, each with a manifest of checksums.

| path in RUN/checkpoints | content |
|---|---|
| step-*/ | weights and optimiser state, as the engine saves them, and state.json |
| step-*/manifest.json | the format, and size and SHA-256 of every other file there |

A checkpoint is written to a temporary folder, which is renamed when it is complete. The best
checkpoint by the metric `checkpoint.best` is kept besides the newest; state.json names its step.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass
from safetensors import SafetensorError

from ictcli.engine import Engine
from ictcli.engine.budget import BudgetState
from ictcli.errors import RunFailedError, UserError, is_disk_full
from ictcli.files import check_inside, drop, locked, new_folder, numbered, write_json
from ictcli.files.reading import read_bytes
from ictcli.recipe.metrics import direction
from ictcli.runs import origin
from ictcli.runs.manifest import MANIFEST, checksums, is_unchanged
from ictcli.runs.read import in_use, read_environment, read_record
from ictcli.runs.records import Format, Manifest, StepMetrics, Summary
from ictcli.runs.rollouts import Batch
from ictcli.text import command
from ictcli.types import BoolArray

FORMAT = 2
STATE = "state.json"
DAMAGE = (ValueError, KeyError, TypeError, FileNotFoundError, SafetensorError)
"""Exceptions raised by reading a damaged checkpoint, but not by a disk error or lack of memory."""

Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Seconds = Annotated[float, Field(ge=0)]


@dataclass(config=ConfigDict(strict=True, allow_inf_nan=False))
class State:
    """Counters and totals of a run, saved with each checkpoint. Fields that are missing in an older
    checkpoint take their defaults; unknown keys are ignored."""

    step: Count = 0
    sft: Count = 0
    """Number of supervised steps done."""
    nonfinite: Count = 0
    """Consecutive steps skipped because a loss, gradient or logit was not finite."""
    skipped: Count = 0
    first_entropy: float | None = None
    tokens_sampled: Count = 0
    tokens_kept: Count = 0
    redrawn: Count = 0
    """Number of rollouts sampled for replacement prompts (`sampling.redraw`)."""
    wall_s: Seconds = 0.0
    """Wall-clock seconds of the run, loading included, summed over resumes."""
    cpu_s: Seconds = 0.0
    """CPU seconds of the run's process, loading included, summed over resumes."""
    train_s: Seconds = 0.0
    """Wall-clock seconds of the training steps alone."""
    best_metric: str = ""
    """Metric that `checkpoint.best` names; empty = not set."""
    best_step: Count = 0
    """The step of the best checkpoint so far; 0 = none."""
    best_value: float | None = None
    budget: BudgetState = field(default_factory=BudgetState)
    recipe: str = field(default="", compare=False)
    """SHA-256 of the run's recipe when the checkpoint was saved."""

    @model_validator(mode="after")
    def _best_is_consistent(self) -> Self:
        if self.best_step > self.step:
            raise ValueError("best_step is later than step")
        if (self.best_step > 0) != (self.best_value is not None):
            raise ValueError("best_step and best_value must be set together")
        return self

    def add(self, metrics: StepMetrics, batch: Batch, kept: BoolArray) -> None:
        """Add a finished step to the totals; `kept` (B, T) marks the batch's trained tokens."""
        self.step = metrics.step
        self.tokens_sampled += batch.tokens_sampled
        self.redrawn += len(batch.redrawn)
        self.tokens_kept += int(kept.sum())
        if self.first_entropy is None:
            self.first_entropy = metrics.entropy
        self.nonfinite = 0 if metrics.finite else self.nonfinite + 1
        self.skipped += not metrics.finite


def stopwatch() -> Callable[[State], None]:
    """Return a function that adds the seconds since its last call to a state's wall_s and cpu_s."""
    last = time.perf_counter(), time.process_time()

    def add(state: State) -> None:
        nonlocal last
        now = time.perf_counter(), time.process_time()
        state.wall_s += now[0] - last[0]
        state.cpu_s += now[1] - last[1]
        last = now

    return add


_STATE = TypeAdapter(State)


class DamagedError(ValueError):
    """A file of a checkpoint is missing or altered; the message names the file."""


def folders(run: Path) -> list[Path]:
    """Return all checkpoint folders of a run, complete or not, oldest first."""
    return [path for _, path in numbered(run / "checkpoints", r"step-(\d+)") if path.is_dir()]


def complete(run: Path) -> list[Path]:
    """Return the checkpoints that have a manifest, oldest first. Their files are not checked."""
    return [path for path in folders(run) if (path / MANIFEST).is_file()]


def step_of(checkpoint: Path) -> int:
    """Return the step in the name of a checkpoint's folder."""
    return int(checkpoint.name.removeprefix("step-"))


def path_of(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"step-{step:06d}"


def save(run: Path, engine: Engine, state: State, recipe: str) -> Path:
    """Save a checkpoint, and return its folder; `recipe` is the hash of the run's recipe.
    RunFailedError if the disk is full or fails; earlier checkpoints are kept."""
    path = path_of(run, state.step)
    try:
        with new_folder(path) as folder:
            engine.save(folder)
            write_json(folder / STATE, {"recipe": recipe, **asdict(replace(state, recipe=recipe))})
            manifest = Manifest(format=FORMAT, files=checksums(folder, [folder]))
            write_json(folder / MANIFEST, manifest.to_json())
    except OSError as error:
        full = is_disk_full(error)
        reason = "No space is left on the disk" if full else error.strerror or str(error)
        earlier = complete(run)
        newest = f"the newest checkpoint is {earlier[-1]}" if earlier else "there is no checkpoint"
        raise RunFailedError(
            f"{reason}: step {state.step} could not be saved ({error.filename or path}); {newest}.",
            f"{'free some space' if full else 'fix the disk'}, then: {command('resume', run)}",
        ) from error
    return path


def check(path: Path) -> State:
    """Compare a checkpoint with its manifest, and return its state. DamagedError if a file is
    missing or altered; UserError if another version of ictcli wrote the checkpoint."""
    file = path / MANIFEST
    written = read_record(file, Format, strict=False)
    if written and written.format != FORMAT:
        raise UserError(
            f"{path} was written by another version of ictcli.",
            "resume with that version, or train again",
        )
    manifest = read_record(file, Manifest, strict=False)
    if manifest is None or STATE not in manifest.files:
        raise DamagedError(f"{MANIFEST} is {'altered' if file.exists() else 'missing'}")
    for name, record in manifest.files.items():
        if not (path / name).is_file():
            raise DamagedError(f"{name} is missing")
        if not is_unchanged(path / name, record):
            raise DamagedError(f"{name} is altered")
    state = _state(path)
    if state is None or not state.recipe:
        raise DamagedError(f"{STATE} is not the state of a run")
    if state.step != step_of(path):
        raise DamagedError(f"{STATE} is from step {state.step}")
    return state


def _state(path: Path) -> State | None:
    try:
        return _STATE.validate_json(read_bytes(path / STATE))
    except ValueError:
        return None


def read(path: Path, engine: Engine, recipe: Mapping[str, Any]) -> State:
    """Load a checkpoint into the engine, and return its state. Raise one of DAMAGE if a file is
    damaged, and UserError if another version of ictcli or another recipe made the checkpoint."""
    state = check(path)
    run = path.parent.parent
    began = read_environment(run).model_copy(update={"recipe_sha256": state.recipe})
    now = {"recipe": origin.of_recipe(recipe, began)}
    origin.check_same(run, began, now, f"{path} was saved")
    engine.restore(path)
    return state


def update_best(state: State, metric: str | None, metrics: StepMetrics, *, due: bool) -> bool:
    """Record a step in the state if it is the best so far by `metric`; return whether it is.

    Only steps with a regular checkpoint (`due`) are compared, or steps with an evaluation if the
    metric is eval/*. So a stop and a resume do not change which step is the best.
    """
    if state.best_metric != (metric or ""):
        state.best_metric, state.best_step, state.best_value = metric or "", 0, None
    if metric is None:
        return False
    name, sign = direction(metric)
    value = metrics.value(name)
    if value is None or not (due or name.startswith("eval/")):
        return False
    if state.best_value is not None and sign * value <= sign * state.best_value:
        return False
    state.best_step, state.best_value = state.step, float(value)
    return True


def prune(run: Path, state: State, last: int) -> None:
    """Delete the checkpoints up to the state's step, except the `last` newest and the best."""
    earlier = [path for path in complete(run) if step_of(path) <= state.step]
    for path in earlier[:-last]:
        if step_of(path) != state.best_step:
            drop(path)


def best_of(run: Path) -> Path | None:
    """Return the folder of the best checkpoint as named in summary.json or else in the newest
    state.json; None if neither names one. The folder may not exist."""
    summary = read_record(run / "summary.json", Summary, strict=False)
    if summary and summary.best:
        return path_of(run, summary.best.step) if summary.best.step else None
    for path in reversed(complete(run)):
        with contextlib.suppress(OSError):
            if state := _state(path):
                return path_of(run, state.best_step) if state.best_step else None
    return None


def pick(run: Path, which: str) -> Path:
    """Return a checkpoint by `which`, "best" or a step. UserError if it is missing or damaged."""
    steps = ", ".join(str(step_of(path)) for path in complete(run)) or "none"
    if which == "best":
        path = best_of(run)
        if path is None:
            raise UserError(
                f"No checkpoint of {run} is marked as the best.",
                f"checkpoint.best=eval/pass@1 in a recipe marks the best; available steps: {steps}",
            )
    elif which.isdecimal():
        path = path_of(run, int(which))
    else:
        raise UserError(f"{which!r} is not a checkpoint.", "use best, or the number of a step")
    if path not in complete(run):
        raise UserError(f"There is no checkpoint {path}.", f"available steps: {steps}")
    try:
        check(path)
    except DamagedError as error:
        raise UserError(
            f"The checkpoint {path} is damaged: {error}.", f"available steps: {steps}"
        ) from error
    return path


def check_finished(run: Path, *names: str) -> None:
    """Raise UserError if a run has none of these folders of exported weights."""
    if any((run / name).is_dir() for name in names):
        return
    steps = [step_of(path) for path in complete(run)]
    last = f", or use its last checkpoint: --checkpoint {steps[-1]}" if steps else ""
    ways = "wait until it ends" if in_use(run) else command("resume", run)
    raise UserError(f"The run {run} has no finished model yet.", f"{ways}{last}")


def old_checkpoints(run: Path, *, finished: bool = False) -> list[Path]:
    """Return the checkpoints that can be deleted: all before the newest undamaged checkpoint,
    except the best. With `finished`, a finished run keeps only its best checkpoint."""
    saved, best = folders(run), best_of(run)
    if not (finished and (run / "summary.json").is_file()):
        newest = next((n for n in reversed(range(len(saved))) if _undamaged(saved[n])), 0)
        saved = saved[:newest]
    return [path for path in saved if path != best]


def _undamaged(path: Path) -> bool:
    try:
        check(path)
    except (*DAMAGE, UserError):
        return False
    return True


def remove_checkpoints(old: Iterable[Path]) -> None:
    """Delete checkpoints. UserError if their run is in use, or links to files elsewhere."""
    for path in old:
        check_inside(path.parents[1])
        with locked(path.parents[1], "run folder", "--run"):
            drop(path)

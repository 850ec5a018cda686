"""Checkpoints: what a run resumes from, each with a manifest of checksums.

| path in RUN/checkpoints | is |
|---|---|
| step-*/ | what the engine saves, and state.json |
| step-*/manifest.json | the format, and size and SHA-256 of every other file there |

A folder gets its name when all of it is on the disk. Every state.json names the best so far by
`checkpoint.best`, which is kept besides the newest.
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
from ictcli.runs.read import read_environment, read_record
from ictcli.runs.records import Format, Manifest, StepMetrics, Summary
from ictcli.runs.rollouts import Batch
from ictcli.text import command
from ictcli.types import BoolArray

FORMAT = 2
STATE = "state.json"
DAMAGE = (ValueError, KeyError, TypeError, FileNotFoundError, SafetensorError)
"""What reading a damaged checkpoint raises; a full memory or a failing disk raises others."""

Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Seconds = Annotated[float, Field(ge=0)]


@dataclass(config=ConfigDict(strict=True, allow_inf_nan=False))
class State:
    """The content of a checkpoint besides weights and optimiser; all else follows from the step. A
    field that an older checkpoint lacks takes its default; unknown keys are ignored."""

    step: Count = 0
    sft: Count = 0
    """Supervised steps made."""
    nonfinite: Count = 0
    """Steps skipped in a row for a loss, gradient or logit that was not finite."""
    skipped: Count = 0
    first_entropy: float | None = None
    tokens_sampled: Count = 0
    tokens_kept: Count = 0
    redrawn: Count = 0
    """Rollouts of prompts drawn again."""
    wall_s: Seconds = 0.0
    """Seconds of the run, from loading the model on."""
    cpu_s: Seconds = 0.0
    """The same of its processes' CPU time."""
    train_s: Seconds = 0.0
    """Seconds of the steps alone."""
    best_metric: str = ""
    """`checkpoint.best`; empty = not set."""
    best_step: Count = 0
    """The step of the best checkpoint so far; 0 = none."""
    best_value: float | None = None
    budget: BudgetState = field(default_factory=BudgetState)
    recipe: str = field(default="", compare=False)
    """SHA-256 of the recipe that it was saved with."""

    @model_validator(mode="after")
    def _best_was_reached(self) -> Self:
        if self.best_step > self.step:
            raise ValueError("the best step is still to come")
        if (self.best_step > 0) != (self.best_value is not None):
            raise ValueError("a best step has a value, and nothing else has")
        return self

    def add(self, metrics: StepMetrics, batch: Batch, kept: BoolArray) -> None:
        """Add a finished step to the totals; `kept` (B, T) are the tokens it trained."""
        self.step = metrics.step
        self.tokens_sampled += batch.tokens_sampled
        self.redrawn += len(batch.redrawn)
        self.tokens_kept += int(kept.sum())
        if self.first_entropy is None:
            self.first_entropy = metrics.entropy
        self.nonfinite = 0 if metrics.finite else self.nonfinite + 1
        self.skipped += not metrics.finite


def stopwatch() -> Callable[[State], None]:
    """Return what adds the seconds since its last call to a state."""
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
    """A checkpoint is not what was saved; the message says which file."""


def folders(run: Path) -> list[Path]:
    """Return every folder with a checkpoint's name, by step."""
    return [path for _, path in numbered(run / "checkpoints", r"step-(\d+)") if path.is_dir()]


def complete(run: Path) -> list[Path]:
    """Return the checkpoints with a manifest, oldest first; `check` compares it with files."""
    return [path for path in folders(run) if (path / MANIFEST).is_file()]


def step_of(checkpoint: Path) -> int:
    """Return the step of a checkpoint's folder."""
    return int(checkpoint.name.removeprefix("step-"))


def path_of(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"step-{step:06d}"


def save(run: Path, engine: Engine, state: State, recipe: str) -> Path:
    """Save a checkpoint, with the hash of its recipe. RunFailedError where the disk is full or
    fails; earlier checkpoints are kept."""
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
        stands = f"{earlier[-1]} stands" if earlier else "no checkpoint was saved before"
        raise RunFailedError(
            f"{reason}: step {state.step} could not be saved ({error.filename or path}); {stands}.",
            f"{'free some space' if full else 'fix that'}, then: {command('resume', run)}",
        ) from error
    return path


def check(path: Path) -> State:
    """Compare a checkpoint with its manifest; return its state. DamagedError where a file is
    missing, cut short or altered; UserError where another version of ictcli wrote it."""
    file = path / MANIFEST
    written = read_record(file, Format, strict=False)
    if written and written.format != FORMAT:
        raise UserError(
            f"{path} was written by another version of ictcli.",
            "resume with that version, or train again",
        )
    manifest = read_record(file, Manifest, strict=False)
    if manifest is None or STATE not in manifest.files:
        raise DamagedError(f"{MANIFEST} is {'not what was saved' if file.exists() else 'missing'}")
    for name, record in manifest.files.items():
        if not (path / name).is_file():
            raise DamagedError(f"{name} is missing")
        if not is_unchanged(path / name, record):
            raise DamagedError(f"{name} is not what was saved")
    state = _state(path)
    if state is None or not state.recipe:
        raise DamagedError(f"{STATE} is not the state of a run")
    if state.step != step_of(path):
        raise DamagedError(f"{STATE} is that of step {state.step}")
    return state


def _state(path: Path) -> State | None:
    try:
        return _STATE.validate_json(read_bytes(path / STATE))
    except ValueError:
        return None


def read(path: Path, engine: Engine, recipe: Mapping[str, Any]) -> State:
    """Restore an engine to a checkpoint of this recipe; returns its state. Raises one of DAMAGE
    where a file is damaged, before the engine is touched; UserError where another version or recipe
    made it."""
    state = check(path)
    run = path.parent.parent
    began = read_environment(run).model_copy(update={"recipe_sha256": state.recipe})
    now = {"recipe": origin.of_recipe(recipe, began)}
    origin.check_same(run, began, now, f"{path} was saved")
    engine.restore(path)
    return state


# The best


def update_best(state: State, metric: str | None, metrics: StepMetrics, *, due: bool) -> bool:
    """Return whether the step is better than all before by `metric`; if so, record it in the state.

    Compares only steps whose checkpoint is `due`, or steps with an evaluation where `metric` is of
    evaluation: so a run that was stopped and resumed in between has the same best.
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
    """Delete all checkpoints up to the state but the `last` newest and the best."""
    earlier = [path for path in complete(run) if step_of(path) <= state.step]
    for path in earlier[:-last]:
        if step_of(path) != state.best_step:
            drop(path)


# Using one


def best_of(run: Path) -> Path | None:
    """Return the checkpoint that the summary or else the newest checkpoint names as the best, there
    or not; None where none is named."""
    summary = read_record(run / "summary.json", Summary, strict=False)
    if summary and summary.best:
        return path_of(run, summary.best.step) if summary.best.step else None
    for path in reversed(complete(run)):
        with contextlib.suppress(OSError):
            if state := _state(path):
                return path_of(run, state.best_step) if state.best_step else None
    return None


def pick(run: Path, which: str) -> Path:
    """Return the checkpoint `best`, or that of a step, checked. UserError if there is none."""
    steps = ", ".join(str(step_of(path)) for path in complete(run)) or "none"
    if which == "best":
        path = best_of(run)
        if path is None:
            raise UserError(
                f"No checkpoint of {run} is marked as the best.",
                f"checkpoint.best=eval/pass@1 in a recipe marks one; steps that are there: {steps}",
            )
    elif which.isdecimal():
        path = path_of(run, int(which))
    else:
        raise UserError(f"{which!r} is not a checkpoint.", "best, or a step's number")
    if path not in complete(run):
        raise UserError(f"There is no checkpoint {path}.", f"steps that are there: {steps}")
    try:
        check(path)
    except DamagedError as error:
        raise UserError(
            f"The checkpoint {path} is damaged: {error}.", f"steps that are there: {steps}"
        ) from error
    return path


def check_finished(run: Path, *names: str) -> None:
    """Raise UserError, with the last checkpoint, where a run has none of those folders."""
    if any((run / name).is_dir() for name in names):
        return
    steps = [step_of(path) for path in complete(run)]
    other = f", or take its last checkpoint: --checkpoint {steps[-1]}" if steps else ""
    raise UserError(f"The run {run} has no finished model yet.", f"{command('resume', run)}{other}")


# Removing old ones


def old_checkpoints(run: Path, *, finished: bool = False) -> list[Path]:
    """Return the checkpoints older than the newest undamaged one, from which a run is resumed,
    without the best. Of a `finished` run all but the best."""
    saved, best = folders(run), best_of(run)
    if not (finished and (run / "summary.json").is_file()):
        newest = next((at for at in reversed(range(len(saved))) if _whole(saved[at])), 0)
        saved = saved[:newest]
    return [path for path in saved if path != best]


def _whole(path: Path) -> bool:
    try:
        check(path)
    except (*DAMAGE, UserError):
        return False
    return True


def remove_checkpoints(old: Iterable[Path]) -> None:
    """Raise UserError if a run is trained now, or may not be read (see `check_inside`)."""
    for path in old:
        check_inside(path.parents[1])
        with locked(path.parents[1], "run folder", "--run"):
            drop(path)

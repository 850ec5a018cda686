"""Checkpoints: what a run goes on from, each with a manifest that tells whether it is whole.

| path in RUN/checkpoints | is |
|---|---|
| step-*/ | what the engine saves, and state.json |
| step-*/manifest.json | the format, and size and SHA-256 of every other file there |
| best.json | which of them is the best by `checkpoint.best`; it stays beside the newest |

A folder gets its name when all of it is on the disk. The best so far stands in every state.json,
and best.json follows from that of the newest: no moment to be killed at leaves the two apart.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from safetensors import SafetensorError

from ictcli.engine import Engine, build_engine
from ictcli.errors import RunFailedError, UserError
from ictcli.files import drop, new_folder, numbered, write_json
from ictcli.recipe.metrics import direction
from ictcli.recipe.settings import AdapterSettings, EngineSettings, OptimizerSettings
from ictcli.runs.provenance import check_engine, check_model, check_recipe, identity_of

FORMAT = 2
MANIFEST, STATE, BEST = "manifest.json", "state.json", "best.json"
DAMAGE = (ValueError, KeyError, TypeError, FileNotFoundError, SafetensorError)
"""What reading a damaged checkpoint raises; a full memory or a failing disk is not that."""


@dataclass
class State:
    """What a checkpoint carries besides weights and optimiser; all else follows from the step.
    A field that a checkpoint does not have yet takes its default."""

    step: int = 0
    nonfinite: int = 0
    """Steps skipped in a row for a loss, gradient or logit that was not finite."""
    skipped: int = 0
    """Steps skipped in all."""
    first_entropy: float | None = None
    tokens_sampled: int = 0
    tokens_kept: int = 0
    wall_s: float = 0.0
    """Seconds of the steps, evaluations between them included."""
    train_s: float = 0.0
    """The same without evaluations."""
    best_metric: str = ""
    """`checkpoint.best`; empty: none is asked for."""
    best_step: int = 0
    """The step of the best checkpoint so far; 0: none."""
    best_value: float | None = None
    budget: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the engine takes on at once, where memory ran out (`ictcli.engine.budget`)."""


class DamagedError(ValueError):
    """A checkpoint that is not what was saved; says in what."""


def folder_of(run: Path) -> Path:
    return run / "checkpoints"


def found(run: Path) -> list[tuple[int, Path]]:
    """(step, folder) of what goes by a checkpoint's name, ascending."""
    return [one for one in numbered(folder_of(run), r"step-(\d+)") if one[1].is_dir()]


def complete(run: Path) -> list[Path]:
    """The checkpoints that have a manifest, oldest first; whether it is true is `check`."""
    return [path for _, path in found(run) if (path / MANIFEST).is_file()]


def save(run: Path, engine: Engine, state: State, recipe: str) -> Path:
    """Save a checkpoint of a recipe of that hash. RunFailedError where the disk takes none; those
    that were there stand."""
    path = folder_of(run) / f"step-{state.step:06d}"
    try:
        with new_folder(path) as folder:
            engine.save(folder)
            _write(folder / STATE, {"recipe": recipe, **asdict(state)})
            _write(folder / MANIFEST, {"format": FORMAT, "files": _measured(folder)})
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "No space is left on the disk" if full else error.strerror or str(error)
        before = complete(run)
        stands = f"{before[-1]} stands" if before else "no checkpoint was saved before"
        raise RunFailedError(
            f"{reason}: step {state.step} could not be saved ({error.filename or path}); {stands}.",
            f"{'free some space' if full else 'mend that'}, then: ictcli resume {run}",
        ) from error
    return path


def _write(path: Path, data: Any) -> None:
    """JSON in a folder that is synced and renamed as a whole."""
    path.write_text(json.dumps(data, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _measured(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of every file below a folder, by its path there."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): _measure(path) for path in files}


def _measure(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return {"bytes": size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def check(path: Path) -> None:
    """Hold a checkpoint against its manifest. DamagedError where a file is missing, cut short or
    altered; UserError where another version of ictcli wrote it."""
    if not (path / MANIFEST).is_file():
        if "format" in _object(path / STATE):  # the first format had no manifest
            raise _other_version(path)
        raise DamagedError(f"{MANIFEST} is missing")
    manifest = _object(path / MANIFEST)
    if "format" not in manifest:
        raise DamagedError(f"{MANIFEST} is not what was saved")
    if manifest["format"] != FORMAT:
        raise _other_version(path)
    listed = manifest.get("files")
    if not isinstance(listed, dict) or STATE not in listed:
        raise DamagedError(f"{MANIFEST} does not list {STATE}")
    for name, told in cast(dict[str, Any], listed).items():
        file = path / name
        if not file.is_file():
            raise DamagedError(f"{name} is missing")
        if told != _measure(file):
            raise DamagedError(f"{name} is not what was saved")


def _object(path: Path) -> dict[str, Any]:
    """A JSON object in a file; empty where there is none that can be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, FileNotFoundError):
        return {}
    return cast(dict[str, Any], data) if isinstance(data, dict) else {}


def _other_version(path: Path) -> UserError:
    return UserError(
        f"{path} was written by another version of ictcli.",
        "resume with that version, or train again",
    )


def read(path: Path, engine: Engine, recipe: str) -> State:
    """Bring an engine to a checkpoint; gives its state. One of DAMAGE where it is not whole,
    before the engine is touched; UserError where another version or recipe made it."""
    check(path)
    data = _object(path / STATE)
    check_recipe(path.parent.parent, data["recipe"], recipe, f"{path} was saved")
    engine.restore(path)
    known = {field.name for field in fields(State)}
    return State(**{name: value for name, value in data.items() if name in known})


# The best


def judge(state: State, wanted: str | None, metrics: Mapping[str, Any], *, due: bool) -> bool:
    """Whether the step is better than all before by the metric `wanted`; the state then says so.

    Only steps whose checkpoint is `due` are judged, and those that were evaluated, by a metric of
    evaluation: so a run that was stopped in between has the same best.
    """
    if state.best_metric != (wanted or ""):
        state.best_metric, state.best_step, state.best_value = wanted or "", 0, None
    if wanted is None:
        return False
    name, sign = direction(wanted)
    value = metrics.get(name)
    if value is None or not (due or name.startswith("eval/")):
        return False
    if state.best_value is not None and sign * value <= sign * state.best_value:
        return False
    state.best_step, state.best_value = state.step, float(value)
    return True


def settle(run: Path, state: State, last: int) -> None:
    """Mark the best, and drop what is neither that nor one of the `last` newest up to the state."""
    whole = [path for path in complete(run) if _step(path) <= state.step]
    best = mark(run, state)
    for path in whole[:-last]:
        if path != best:
            drop(path)


def mark(run: Path, state: State) -> Path | None:
    """Have best.json name the best checkpoint, if it is there; gives its folder."""
    marker, path = folder_of(run) / BEST, folder_of(run) / f"step-{state.best_step:06d}"
    if not state.best_step or path not in complete(run):
        marker.unlink(missing_ok=True)
        return None
    about = {
        "format": 1,
        "checkpoint": path.name,
        "step": state.best_step,
        "metric": state.best_metric,
        "value": state.best_value,
    }
    if _object(marker) != about:
        write_json(marker, about)
    return path


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


# Using one


def pick(run: Path, which: str) -> Path:
    """The checkpoint `best`, or that of a step, checked. UserError where there is none."""
    steps = ", ".join(str(_step(path)) for path in complete(run)) or "none"
    if which == "best":
        name = _object(folder_of(run) / BEST).get("checkpoint")
        if name is None:
            raise UserError(
                f"No checkpoint of {run} is marked as the best.",
                f"checkpoint.best=eval/pass@1 in a recipe marks one; steps that are there: {steps}",
            )
    elif which.isdecimal():
        name = f"step-{int(which):06d}"
    else:
        raise UserError(f"{which!r} is no checkpoint.", "best, or a step's number")
    path = folder_of(run) / str(name)
    if path not in complete(run):
        raise UserError(f"There is no checkpoint {path}.", f"steps that are there: {steps}")
    try:
        check(path)
    except DamagedError as error:
        raise UserError(
            f"The checkpoint {path} is damaged: {error}.", f"steps that are there: {steps}"
        ) from error
    return path


def weights_of(path: Path) -> str:
    """The checksum of a checkpoint's manifest without what a clock has touched."""
    listed = _object(path / MANIFEST)["files"]
    saved = {name: told["sha256"] for name, told in listed.items() if name != STATE}
    return hashlib.sha256(json.dumps(saved, sort_keys=True).encode()).hexdigest()


def engine_at(run: Path, path: Path, settings: EngineSettings) -> Engine:
    """A run's model as it was at a checkpoint; takes the memory of training."""
    data = tomllib.loads((run / "recipe.toml").read_text(encoding="utf-8"))
    optimizer = OptimizerSettings.model_validate(data.get("optimizer", {}))
    adapter = AdapterSettings.model_validate(data.get("adapter", {}))
    trained = None if adapter.kind == "none" else adapter
    engine = build_engine(data["model"], settings, optimizer, trained)
    recorded = _object(run / "environment.json")
    check_model(run, recorded, identity_of(data["model"], settings))
    adapters = trained is not None
    check_engine(run, recorded, engine, adapters=adapters, option="--backend ")
    try:
        engine.restore(path)
    except DAMAGE as error:
        raise UserError(
            f"{path} cannot be loaded by this engine: {error!r}.",
            "take the engine.backend and engine.dtype of its run",
        ) from error
    return engine

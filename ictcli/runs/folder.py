"""The run folder: one place for everything a run reads again, and a lock that keeps others out.

| path | is |
|---|---|
| recipe.toml | the resolved recipe; `ictcli train RUN/recipe.toml` repeats the run |
| environment.json | versions, device, dtype, seed, and checksums of what it began with |
| metrics.jsonl | one line a step; a resumed run's equals an uninterrupted one's |
| timings.jsonl | one line a step: seconds and memory, which no two runs share |
| rollouts/step-*.safetensors | recorded rollouts: tokens, statistics, kept mask, texts |
| eval/*.json, eval/*.jsonl | evaluations and their samples |
| checkpoints/ | what it goes on from: `ictcli.runs.checkpoints` |
| model/ | the final model in Hugging Face layout |
| summary.json | before, after, and the totals |
| failure.json | why the last sitting failed, where it did |
| tracking/, tensorboard/, wandb/ | what trackers keep (`ictcli.tracking`) |
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import numpy as np
from filelock import FileLock, Timeout

from ictcli.engine import Engine
from ictcli.errors import InterruptedRunError, RunFailedError, UserError
from ictcli.files import (
    is_leftover,
    make_folder,
    new_file,
    numbered,
    sweep,
    sync,
    write_json,
    write_text,
)
from ictcli.recipe import Recipe, load_recipe, to_toml
from ictcli.runs import checkpoints
from ictcli.runs.checkpoints import DAMAGE, DamagedError, State
from ictcli.runs.provenance import recipe_hash
from ictcli.train.step import Batch, Plan

FORMAT = 1
"""Of recorded rollouts, summary.json and environment.json."""


class Run:
    """An open run folder. Use as a context manager: the lock is held until it closes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = FileLock(folder / ".lock")
        self._created = False

    @staticmethod
    def create(folder: Path, recipe: Recipe) -> Run:
        """A new run folder. Raises UserError where the path is taken."""
        if folder.exists() and (not folder.is_dir() or _holds_anything(folder)):
            ways = "--run OTHER takes another folder"
            if is_run(folder):  # never advise to delete what is not ours
                ways = f"ictcli resume {folder} continues it; {ways}; rm -r {folder} starts over"
            raise UserError(f"The run folder {folder} exists already.", ways)
        make_folder(folder)
        run = Run(folder)
        run.lock()
        run._created = True
        write_text(folder / "recipe.toml", to_toml(recipe))
        return run

    @staticmethod
    def open(folder: Path) -> tuple[Run, Recipe]:
        """An existing run folder and its recipe."""
        if not is_run(folder):
            raise UserError(
                f"{folder} is not a run folder: it has no recipe.toml.",
                "ictcli train RECIPE --run FOLDER makes one",
            )
        run = Run(folder)
        run.lock()
        return run, load_recipe(folder / "recipe.toml")

    def lock(self) -> None:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise UserError(
                f"The run folder {self.folder} is in use by another process.",
                "wait for it, stop it with Ctrl-C, or choose another folder with --run",
            ) from None

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        refused = isinstance(error, UserError) and not isinstance(error, InterruptedRunError)
        if self._created and refused:
            self._discard_if_unused(started=isinstance(error, RunFailedError))
        self._lock.release()

    def _discard_if_unused(self, *, started: bool) -> None:
        """Take a folder away in which nothing was done, so that the mended command finds it free:
        the model, the task or the engine was at fault. A run that started keeps failure.json."""
        ours = {"recipe.toml", "environment.json", ".lock"}
        if not started:
            ours.add("failure.json")
        if {path.name for path in self.folder.iterdir()} <= ours:
            shutil.rmtree(self.folder, ignore_errors=True)

    # Checkpoints

    def checkpoints(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        return checkpoints.complete(self.folder)

    def checkpoint(self, engine: Engine, state: State, last: int) -> Path:
        """Save a checkpoint; drop all but the `last` newest and the best."""
        for file in self.folder.glob("*.jsonl"):
            sync(file)  # a checkpoint counts their lines
        sync(self.folder)
        path = checkpoints.save(self.folder, engine, state, recipe_hash(self.folder))
        checkpoints.settle(self.folder, state, last)
        return path

    def restore(self, engine: Engine, say: Callable[[str], None]) -> State:
        """Bring engine and metrics back to the newest checkpoint that is whole, or to the beginning
        where none was ever saved. What is passed over is told to `say`."""
        sweep(self.folder)
        state = self._newest(engine, say)
        checkpoints.mark(self.folder, state)
        for name in ("metrics.jsonl", "timings.jsonl"):
            kept = [line for line in self.lines(name) if line["step"] <= state.step]
            if name == "metrics.jsonl" and len(kept) != state.step:
                raise UserError(
                    f"{self.folder / name} has {len(kept)} of {state.step} steps: "
                    "lines were taken out.",
                    "put the file back, or train again",
                )
            if (self.folder / name).exists():
                write_text(self.folder / name, "".join(_line(line) for line in kept))
        for step, path in numbered(self.folder / "rollouts", r"step-(\d+)\.safetensors"):
            if step > state.step:
                path.unlink()
        return state

    def _newest(self, engine: Engine, say: Callable[[str], None]) -> State:
        found = checkpoints.found(self.folder)
        for _, path in reversed(found):
            try:
                return checkpoints.read(path, engine, recipe_hash(self.folder))
            except DAMAGE as error:
                reason = error if isinstance(error, DamagedError) else repr(error)
                say(f"The checkpoint {path} is damaged ({reason}); trying the one before.")
        if found:
            raise RunFailedError(
                f"No checkpoint of {self.folder} can be read.", "train again in another folder"
            )
        return State()

    # What a step leaves

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl or timings.jsonl, up to one that a kill or power cut tore."""
        path = self.folder / name
        found: list[dict[str, Any]] = []
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
            try:
                found.append(json.loads(line if line.endswith(b"\n") else b""))
            except ValueError:
                break
        return found

    def means(self, names: Sequence[str], after: int = 0) -> dict[str, float]:
        """Means of metrics over the steps behind `after`, of those that exist."""
        lines = [line for line in self.lines("metrics.jsonl") if line["step"] > after]
        found: dict[str, float] = {}
        for name in names:
            values = [line[name] for line in lines if line.get(name) is not None]
            if values:
                found[name] = float(np.mean(values))
        return found

    def append(self, name: str, data: dict[str, Any]) -> None:
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(_line(data))

    def write(self, name: str, data: Any) -> None:
        write_json(self.folder / name, data)

    def read(self, name: str) -> dict[str, Any] | None:
        """A JSON object in a file of the folder, or None where it is not there yet. UserError where
        it is damaged, or another version of ictcli wrote it."""
        path = self.folder / name
        if not path.is_file():
            return None
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise damaged(path)
        found = cast(dict[str, Any], found)
        if found.get("format", FORMAT) != FORMAT:
            raise UserError(
                f"{path} was written by another version of ictcli.", "read it with that version"
            )
        return found

    def record_rollouts(self, step: int, batch: Batch, plan: Plan) -> None:
        """One batch with everything its training was decided on (see `read_rollouts`)."""
        from safetensors import numpy as safetensors_numpy

        rollouts = batch.rollouts
        path = self.folder / "rollouts" / f"step-{step:06d}.safetensors"
        make_folder(path.parent)
        arrays = {
            "tokens": rollouts.tokens.astype(np.int32),
            "lengths": rollouts.lengths.astype(np.int32),
            "finished": rollouts.finished,
            "logp": rollouts.logp.astype(np.float32),
            "rewards": batch.rewards.astype(np.float32),
            "advantage": batch.advantage.astype(np.float32),
            "kept": plan.kept,
            "weights": plan.weights,
            **{f"stats/{name}": v.astype(np.float32) for name, v in rollouts.stats.items()},
        }
        about = {
            "format": FORMAT,
            "step": step,
            "group": rollouts.group,
            "prompts": [list(prompt) for prompt in rollouts.prompts],
            "problems": [asdict(problem) for problem in batch.problems],
            "texts": batch.texts,
            "verdicts": [asdict(verdict) for verdict in batch.verdicts],
        }
        contiguous = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
        with new_file(path) as beside:
            cast(Any, safetensors_numpy).save_file(
                contiguous, beside, metadata={"ictcli": json.dumps(about)}
            )


def read_rollouts(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and description of a recorded batch: tokens, lengths, finished, logp, advantage,
    kept, weights and stats/NAME; step, group, prompts, problems, texts and verdicts. UserError
    where another version of ictcli wrote it."""
    from safetensors import safe_open

    with cast(Any, safe_open)(path, "np") as opened:
        about = json.loads(opened.metadata()["ictcli"])
        if about["format"] != FORMAT:
            raise UserError(
                f"{path} was written by another version of ictcli.", "inspect it with that version"
            )
        return {name: opened.get_tensor(name) for name in opened.keys()}, about  # noqa: SIM118


def damaged(path: Path) -> UserError:
    """For a file of a run's folder that is not what a run wrote."""
    return UserError(
        f"{path} is damaged.",
        f"put it back; or rm {path}, and ictcli resume {path.parent} makes it again",
    )


def is_run(folder: Path) -> bool:
    return (folder / "recipe.toml").is_file()


def _holds_anything(folder: Path) -> bool:
    """Whether there is more than a process leaves that was killed before it wrote the recipe."""
    return any(path.name != ".lock" and not is_leftover(path) for path in folder.iterdir())


def _line(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n"


def free_folder(base: Path, name: str) -> Path:
    """base/name, or base/name-2, -3, ... where it is taken."""
    path, number = base / name, 1
    while path.exists():
        number += 1
        path = base / f"{name}-{number}"
    return path

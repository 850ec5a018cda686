"""The run folder: one place for everything a run reads again, and a lock that keeps others out.

| path | is |
|---|---|
| recipe.toml | the resolved recipe; `ictcli train RUN/recipe.toml` repeats the run |
| environment.json | versions, device, dtype, seed |
| metrics.jsonl | one line a step; a resumed run's equals an uninterrupted one's |
| timings.jsonl | one line a step: seconds and memory, which no two runs share |
| rollouts/step-*.safetensors | recorded rollouts: tokens, statistics, kept mask, texts |
| eval/*.json, eval/*.jsonl | evaluations and their samples |
| checkpoints/step-*/ | weights, optimiser state, state.json |
| model/ | the final model in Hugging Face layout |
| summary.json | before, after, and the totals |
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import numpy as np
from filelock import FileLock, Timeout
from safetensors import SafetensorError

from ictcli.engine import Engine
from ictcli.errors import InterruptedRunError, RunFailedError, UserError
from ictcli.files import is_leftover, new_file, new_folder, sweep, sync, write_json, write_text
from ictcli.recipe import Recipe, load_recipe, to_toml
from ictcli.step import Batch, Plan

FORMAT = 1
DAMAGE = (ValueError, KeyError, TypeError, FileNotFoundError, SafetensorError)
"""What reading a damaged checkpoint raises; a full memory or a failing disk is not that."""


@dataclass
class State:
    """What a checkpoint carries besides weights and optimiser; all else follows from the step."""

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
    budget: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the engine takes on at once, where memory ran out (`ictcli.budget`)."""


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
        folder.mkdir(parents=True, exist_ok=True)
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
            self._discard_if_unused()
        self._lock.release()

    def _discard_if_unused(self) -> None:
        """Take a folder away in which nothing was done, so that the mended command finds it free:
        the model, the task or the engine was at fault."""
        ours = {"recipe.toml", "environment.json", ".lock"}
        if {path.name for path in self.folder.iterdir()} <= ours:
            shutil.rmtree(self.folder, ignore_errors=True)

    # Checkpoints

    def checkpoints(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        return [
            path
            for _, path in numbered(self.folder / "checkpoints", r"step-(\d+)")
            if (path / "state.json").is_file()
        ]

    def checkpoint(self, engine: Engine, state: State, last: int) -> Path:
        """Save a checkpoint and drop all but the `last` newest."""
        path = self.folder / "checkpoints" / f"step-{state.step:06d}"
        for file in self.folder.glob("*.jsonl"):
            sync(file)  # a checkpoint counts their lines
        with new_folder(path) as folder:
            engine.save(folder)
            about = {"format": FORMAT, "recipe": self._recipe_hash(), **asdict(state)}
            write_json(folder / "state.json", about)
        for old in self.checkpoints()[:-last]:
            shutil.rmtree(old)
        return path

    def restore(self, engine: Engine, say: Callable[[str], None]) -> State:
        """Bring engine and metrics back to the newest checkpoint that can be read, or to the
        beginning where none was ever saved. What is passed over is told to `say`."""
        sweep(self.folder)
        state = self._newest(engine, say)
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
        found = self.checkpoints()
        for path in reversed(found):
            try:
                return self._read(path, engine)
            except DAMAGE as error:
                say(f"The checkpoint {path} is damaged ({error!r}); trying the one before.")
        if found:
            raise RunFailedError(
                f"No checkpoint of {self.folder} can be read.", "train again in another folder"
            )
        return State()

    def _read(self, path: Path, engine: Engine) -> State:
        data = json.loads((path / "state.json").read_text(encoding="utf-8"))
        if data.pop("format") != FORMAT:
            raise UserError(
                f"{path} was written by another version of ictcli.",
                "resume with that version, or train again",
            )
        if data.pop("recipe") != self._recipe_hash():
            raise UserError(
                f"{self.folder / 'recipe.toml'} was changed since {path} was saved.",
                "put it back, or train the changed recipe as a run of its own",
            )
        engine.restore(path)
        return State(**data)

    def _recipe_hash(self) -> str:
        """Of what decides a run's numbers: where its files lie, what holds them and who is warned
        may change between two sittings."""
        data = tomllib.loads((self.folder / "recipe.toml").read_text(encoding="utf-8"))
        for key in ("model", "plugins", "engine", "checkpoint", "alarms"):
            data.pop(key, None)
        if str(data["task"]).endswith(".jsonl"):
            del data["task"]
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()

    # What a step leaves

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The complete lines of metrics.jsonl or timings.jsonl; a torn last one is left out."""
        path = self.folder / name
        if not path.exists():
            return []
        text = path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        return [json.loads(line) for line in whole.splitlines()]

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

    def read(self, name: str) -> Any | None:
        """A JSON file of the folder, or None where it is not there yet."""
        path = self.folder / name
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def record_rollouts(self, step: int, batch: Batch, plan: Plan) -> None:
        """One batch with everything its training was decided on (see `read_rollouts`)."""
        from safetensors import numpy as safetensors_numpy

        rollouts = batch.rollouts
        path = self.folder / "rollouts" / f"step-{step:06d}.safetensors"
        path.parent.mkdir(exist_ok=True)
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
    kept, weights and stats/NAME; step, group, prompts, problems, texts and verdicts."""
    from safetensors import safe_open

    with cast(Any, safe_open)(path, "np") as opened:
        about = json.loads(opened.metadata()["ictcli"])
        return {name: opened.get_tensor(name) for name in opened.keys()}, about  # noqa: SIM118


def numbered(folder: Path, pattern: str) -> list[tuple[int, Path]]:
    """(number, path) of a folder's entries of that name, ascending; whatever else lies there is
    somebody's own."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    found = [(match, name) for name in names if (match := re.fullmatch(pattern, name))]
    return sorted((int(match[1]), folder / name) for match, name in found)


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

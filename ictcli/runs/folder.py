"""The run folder: everything a run reads again, and a lock against a second process.

| path | is |
|---|---|
| recipe.toml | the resolved recipe; `ictcli train RUN/recipe.toml` repeats the run |
| environment.json | versions, device, dtype, seed, and checksums of recipe, model and data |
| metrics.jsonl | one line a step; a resumed run's equals an uninterrupted one's |
| sft.jsonl | one line a supervised step (`sft.data`) |
| timings.jsonl | one line a step: seconds and memory, which no two runs share |
| rollouts/step-*.safetensors | recorded rollouts: tokens, statistics, kept mask, texts |
| eval/*.json, eval/*.jsonl | evaluations and their samples |
| checkpoints/ | what it resumes from: `ictcli.runs.checkpoints` |
| model/ | the final model in Hugging Face layout |
| summary.json | before, after, and the totals |
| manifest.json | checksums of what is written once: `ictcli.runs.manifest` |
| failure.json | why the last process failed, if it did |
| tensorboard/, wandb/ | what trackers keep (`ictcli.tracking`) |
"""

import contextlib
import copy
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from ictcli import files
from ictcli.engine import Engine
from ictcli.errors import InterruptedRunError, RunFailedError, UserError
from ictcli.evaluation.record import Record
from ictcli.files.reading import parse_toml
from ictcli.recipe import Recipe, RecipeFile, gone, load_recipe, table_to_toml, to_toml
from ictcli.runs import checkpoints, manifest
from ictcli.runs.checkpoints import DAMAGE, DamagedError, State
from ictcli.runs.origin import of_recipe
from ictcli.runs.read import cut_lines, read_lines, read_record
from ictcli.runs.records import SftMetrics, StepMetrics, StepTimings
from ictcli.runs.rollouts import Batch, write_rollouts
from ictcli.runs.trust import read_run
from ictcli.tables.numbers import listed
from ictcli.text import command, shell_word
from ictcli.types import BoolArray, FloatArray

R = TypeVar("R", bound=Record)
STEPS = ("metrics.jsonl", "timings.jsonl")
SFT = "sft.jsonl"
LINES = {StepMetrics: STEPS[0], StepTimings: STEPS[1], SftMetrics: SFT}


class Run:
    """An open run folder. Use as a context manager: the lock is held until it closes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listener: Callable[[str, Record], None] | None = None
        """Called with each new record and the name of its file."""
        self._file: RecipeFile | None = None
        self._closing = contextlib.ExitStack()

    @staticmethod
    def create(folder: Path, recipe: Recipe) -> "Run":
        """Return a new run folder. UserError where the path is taken, or holds a link (see
        `check_inside`)."""
        # a process that was killed before it wrote the recipe leaves no more than these
        there = folder.iterdir() if folder.is_dir() else [folder] * folder.exists()
        if any(path.name != ".lock" and not files.is_leftover(path) for path in there):
            ways = "--run OTHER takes another folder"
            if is_run(folder):  # never advise to delete what is not ours
                ways = (
                    f"{command('resume', folder)} continues it; {ways}; "
                    f"rm -r {shell_word(folder)} starts over"
                )
            raise UserError(f"The run folder {folder} exists already.", ways)
        run = Run(folder)
        with contextlib.ExitStack() as closing:
            closing.callback(files.remove_empty, files.make_folder(folder))
            files.check_inside(folder)
            closing.enter_context(files.locked(folder, "run folder", "--run"))
            closing.enter_context(run._discarded_if_unused())
            run.write_recipe(recipe)
            run._closing = closing.pop_all()
        return run

    @staticmethod
    def open(folder: Path) -> tuple["Run", Recipe]:
        """Return an existing run folder and its recipe. UserError where it may not be read."""
        if not is_run(folder):
            raise UserError(
                f"{folder} is not a run folder: it has no recipe.toml.",
                "ictcli train RECIPE --run FOLDER makes one",
            )
        files.check_inside(folder)
        run = Run(folder)
        with contextlib.ExitStack() as closing:
            closing.enter_context(files.locked(folder, "run folder", "--run"))
            run._file = read_run(folder)
            if used := gone.dropped(copy.deepcopy(dict(run.file.data))):
                raise UserError(
                    f"{folder} cannot be resumed: it was trained with {listed(used)}, which this "
                    "version does not have.",
                    "it can be evaluated and exported; ictcli train RECIPE begins another run",
                )
            recipe = load_recipe(run.file)
            run._closing = closing.pop_all()
        return run, recipe

    @property
    def file(self) -> RecipeFile:
        """recipe.toml as it was written, or read when the run was opened."""
        self._file = self._file or read_run(self.folder)
        return self._file

    @property
    def recipe(self) -> Mapping[str, Any]:
        """The tables of `file`."""
        return self.file.data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.__exit__(kind, error, trace)

    @contextlib.contextmanager
    def _discarded_if_unused(self) -> Generator[None]:
        """Empty a folder in which nothing was done within, so that the corrected command can use
        its name. A run that started keeps failure.json."""
        try:
            yield
        except InterruptedRunError:
            raise
        except (UserError, UnicodeError) as error:
            ours = {"recipe.toml", "environment.json", manifest.MANIFEST, ".lock"}
            ours |= set[str]() if isinstance(error, RunFailedError) else {"failure.json"}
            paths = list(self.folder.iterdir())
            if {path.name for path in paths} <= ours:
                for path in paths:
                    if path.name != ".lock":
                        path.unlink()
            raise

    # Checkpoints

    def checkpoints(self) -> list[Path]:
        """Return the complete checkpoints, oldest first."""
        return checkpoints.complete(self.folder)

    def checkpoint(self, engine: Engine, state: State, last: int) -> Path:
        """Save a checkpoint; delete all but the `last` newest and the best."""
        for file in self.folder.glob("*.jsonl"):
            files.sync(file)  # a checkpoint counts their lines
        files.sync(self.folder)
        path = checkpoints.save(self.folder, engine, state, of_recipe(self.recipe))
        checkpoints.prune(self.folder, state, last)
        return path

    def restore(self, engine: Engine, say: Callable[[str], None]) -> State:
        """Restore engine and metrics to the newest undamaged checkpoint, or to the beginning where
        none was saved. `say` gets a sentence for each damaged one."""
        files.sweep(self.folder)
        state = engine.ranks.broadcast(self._newest(engine, say))  # other ranks have none
        if state != State():
            engine.align()
        steps = sum(line.step <= state.step for line in self.metrics())
        if steps != state.step:
            raise UserError(
                f"{self.folder / 'metrics.jsonl'} has {steps} of {state.step} steps: "
                "lines were taken out.",
                "put the file back, or train again",
            )
        manifest.leave(self.folder, *STEPS, SFT)
        for name in STEPS:
            cut_lines(self.folder / name, state.step)
        cut_lines(self.folder / SFT, state.sft)
        for step, path in files.numbered(self.folder / "rollouts", r"step-(\d+)\.safetensors"):
            if step > state.step:
                manifest.leave(self.folder, f"rollouts/{path.name}")
                path.unlink()
        return state

    def _newest(self, engine: Engine, say: Callable[[str], None]) -> State:
        folders = checkpoints.folders(self.folder)
        for path in reversed(folders):
            try:
                return checkpoints.read(path, engine, self.recipe)
            except DAMAGE as error:
                reason = error if isinstance(error, DamagedError) else repr(error)
                say(f"The checkpoint {path} is damaged ({reason}); trying the one before.")
        if folders:
            raise RunFailedError(
                f"No checkpoint of {self.folder} can be read.", "train again in another folder"
            )
        return State()

    # What a step leaves

    def metrics(self) -> list[StepMetrics]:
        """Return the steps of metrics.jsonl."""
        return read_lines(self.folder / "metrics.jsonl", StepMetrics)

    def append(self, record: StepMetrics | StepTimings | SftMetrics) -> None:
        """Add a step's line to the file of its kind."""
        with files.appended(self.folder / LINES[type(record)]) as file:
            file.write(record.to_line().encode())
        self._tell(LINES[type(record)], record)

    def record_rollouts(
        self, step: int, batch: Batch, kept: BoolArray, weights: FloatArray
    ) -> None:
        """Record a batch with everything its training was decided on (see `read_rollouts`)."""
        name = f"rollouts/step-{step:06d}.safetensors"
        with manifest.rewriting(self.folder, name):
            write_rollouts(self.folder / name, step, batch, kept, weights)

    def write_recipe(self, recipe: Recipe, steps: int | None = None) -> None:
        """Write recipe.toml; with `steps`, change these and nothing else of it."""
        text = to_toml(recipe) if steps is None else table_to_toml({**self.recipe, "steps": steps})
        path = self.folder / "recipe.toml"
        with manifest.rewriting(self.folder, path.name):
            files.write_text(path, text)
        self._file = RecipeFile(str(path), path, parse_toml(text))

    def write(self, name: str, record: Record) -> None:
        """Write a JSON file of the folder: the fields that are set."""
        with manifest.rewriting(self.folder, name):
            files.write_json(self.folder / name, record.model_dump(exclude_unset=True))
        self._tell(name, record)

    def _tell(self, name: str, record: Record) -> None:
        if self.listener:
            self.listener(name, record)

    def read(self, name: str, kind: type[R]) -> R | None:
        """Return a JSON file of the folder, or None where it is not there yet. UserError where it
        is damaged, or another version of ictcli wrote it."""
        return read_record(self.folder / name, kind)


def is_run(folder: Path) -> bool:
    return (folder / "recipe.toml").is_file()


def free_folder(base: Path, name: str) -> Path:
    """Return base/name, or base/name-2, -3, ... where it is taken."""
    path, number = base / name, 1
    while path.exists():
        number += 1
        path = base / f"{name}-{number}"
    return path

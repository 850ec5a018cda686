"""The run folder: the files of a run, and a lock that keeps a second process out.

| path | content |
|---|---|
| recipe.toml | the resolved recipe; `ictcli train RUN/recipe.toml` repeats the run |
| environment.json | versions, device, dtype, seed, and checksums of recipe, model and data |
| metrics.jsonl | one line per step; the same whether or not the run was interrupted |
| sft.jsonl | one line per supervised step (`sft.data`) |
| timings.jsonl | one line per step: seconds and memory, which differ between repeats |
| rollouts/step-*.safetensors | recorded rollouts: tokens, statistics, trained mask, texts |
| eval/*.json, eval/*.jsonl | evaluations and their samples |
| checkpoints/ | the states to resume from: `ictcli.runs.checkpoints` |
| model/ | the final model in Hugging Face layout |
| summary.json | scores before and after training, and totals |
| manifest.json | checksums of the finished files: `ictcli.runs.manifest` |
| failure.json | why the last process failed, if it did |
| tensorboard/, wandb/ | files of the trackers: `ictcli.tracking` |
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
        """Create and lock a run folder. UserError if the path is taken."""
        # a process killed before it wrote the recipe leaves a lock and temporary files
        present = folder.iterdir() if folder.is_dir() else [folder] * folder.exists()
        if any(path.name != ".lock" and not files.is_leftover(path) for path in present):
            ways = "--run OTHER uses another folder"
            if is_run(folder):  # never advise to delete any other folder
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
        """Lock a run folder; return it and its recipe. UserError if it cannot be resumed."""
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
                    "the run can be evaluated and exported; ictcli train RECIPE begins another run",
                )
            recipe = load_recipe(run.file)
            run._closing = closing.pop_all()
        return run, recipe

    @property
    def file(self) -> RecipeFile:
        """Return recipe.toml as last written or read."""
        self._file = self._file or read_run(self.folder)
        return self._file

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Return the keys and tables of recipe.toml."""
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
        """On a UserError, empty the folder if it has no results yet, so that the corrected command
        can use its name. The failure.json of a RunFailedError counts as a result."""
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

    def checkpoints(self) -> list[Path]:
        """Return the complete checkpoints, oldest first."""
        return checkpoints.complete(self.folder)

    def checkpoint(self, engine: Engine, state: State, last: int) -> Path:
        """Save a checkpoint, then delete all except the `last` newest and the best."""
        for file in self.folder.glob("*.jsonl"):
            files.sync(file)  # the checkpoint is of no use without their lines
        files.sync(self.folder)
        path = checkpoints.save(self.folder, engine, state, of_recipe(self.recipe))
        checkpoints.prune(self.folder, state, last)
        return path

    def restore(self, engine: Engine, say: Callable[[str], None]) -> State:
        """Restore the engine and the files of the run to its newest undamaged checkpoint, or to
        step 0 if none was saved. `say` gets a sentence for each damaged checkpoint."""
        files.sweep(self.folder)
        state = engine.ranks.broadcast(self._newest(engine, say))  # only rank 0 has checkpoints
        if state != State():
            engine.align()
        steps = sum(line.step <= state.step for line in self.metrics())
        if steps != state.step:
            raise UserError(
                f"{self.folder / 'metrics.jsonl'} has {steps} of {state.step} steps: "
                "lines are missing.",
                "restore the file from a copy, or train again",
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
                say(f"The checkpoint {path} is damaged ({reason}); trying the previous checkpoint.")
        if folders:
            raise RunFailedError(
                f"No checkpoint of {self.folder} can be read.", "train again in another folder"
            )
        return State()

    def metrics(self) -> list[StepMetrics]:
        """Return the records of metrics.jsonl, one per step."""
        return read_lines(self.folder / "metrics.jsonl", StepMetrics)

    def append(self, record: StepMetrics | StepTimings | SftMetrics) -> None:
        """Append a record to the JSONL file of its class."""
        with files.appended(self.folder / LINES[type(record)]) as file:
            file.write(record.to_line().encode())
        self._notify(LINES[type(record)], record)

    def record_rollouts(
        self, step: int, batch: Batch, kept: BoolArray, weights: FloatArray
    ) -> None:
        """Record the step's batch, which tokens were trained (`kept`), and their weights."""
        name = f"rollouts/step-{step:06d}.safetensors"
        with manifest.rewriting(self.folder, name):
            write_rollouts(self.folder / name, step, batch, kept, weights)

    def write_recipe(self, recipe: Recipe, steps: int | None = None) -> None:
        """Write recipe.toml; with `steps`, change only that key of the existing file."""
        text = to_toml(recipe) if steps is None else table_to_toml({**self.recipe, "steps": steps})
        path = self.folder / "recipe.toml"
        with manifest.rewriting(self.folder, path.name):
            files.write_text(path, text)
        self._file = RecipeFile(str(path), path, parse_toml(text))

    def write(self, name: str, record: Record) -> None:
        """Write a record to a JSON file of the folder, without fields that are not set."""
        with manifest.rewriting(self.folder, name):
            files.write_json(self.folder / name, record.model_dump(exclude_unset=True))
        self._notify(name, record)

    def _notify(self, name: str, record: Record) -> None:
        if self.listener:
            self.listener(name, record)

    def read(self, name: str, kind: type[R]) -> R | None:
        """Return a JSON file of the folder as a record; None if it does not exist. UserError if it
        is damaged, or another version of ictcli wrote it."""
        return read_record(self.folder / name, kind)


def is_run(folder: Path) -> bool:
    return (folder / "recipe.toml").is_file()


def free_folder(base: Path, name: str) -> Path:
    """Return base/name, or the first free one of base/name-2, -3, ... if it exists."""
    path, number = base / name, 1
    while path.exists():
        number += 1
        path = base / f"{name}-{number}"
    return path

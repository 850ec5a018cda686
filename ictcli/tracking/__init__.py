"""Tracking: logging a run's metrics to TensorBoard or Weights & Biases, besides metrics.jsonl.

A tracker gets numbers, the recipe and the environment, but no text of a model or data set, and no
path of this machine (`ictcli.runs.public`). If it raises, a warning is shown and training goes on
without it. Steps of supervised training are counted first: 0 = before training, n = step n.
"""

import contextlib
import importlib
import os
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ictcli.errors import install, text_of
from ictcli.evaluation.record import Evaluation, Record
from ictcli.recipe import Recipe
from ictcli.runs import Run
from ictcli.runs.public import public_environment, public_recipe
from ictcli.runs.read import read_environment
from ictcli.runs.records import RunRecord, SftMetrics, StepMetrics, StepTimings
from ictcli.text import shell_word

PROJECT = "ictcli"
PREFIXES = {StepMetrics: "train/", StepTimings: "time/", SftMetrics: "sft/"}


@dataclass(frozen=True)
class About:
    """The description of a run with which a tracker is opened."""

    folder: Path
    done: int
    """Last finished step of a resumed run, else 0. Values of later steps are discarded."""
    recipe: dict[str, Any]
    environment: dict[str, Any]


@dataclass
class Tracker:
    """Logs a run to one library. This class uses a run object like wandb's. `open_tracker(about)`
    in the module named after the library returns the library's tracker."""

    run: Any

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log numbers by name for step 0 (before training), 1, 2, ..."""
        self.run.log(dict(values), step=step)

    def close(self) -> None:
        """Write what is still unwritten, and close the run."""
        self.run.finish()


@contextlib.contextmanager
def tracked(
    run: Run, recipe: Recipe, warn: Callable[[str], None]
) -> Generator[Callable[[int], None]]:
    """Yield a function that takes the last finished step and opens the run's trackers; from then on
    they log the metrics that the run writes."""
    trackers: dict[str, Tracker] = {}
    supervised = recipe.sft_steps
    ends = {"before": 0, "after": supervised + recipe.steps}

    @contextlib.contextmanager
    def attempt(name: str) -> Generator[None]:
        try:
            yield
        except Exception as error:  # of a library or a server
            reason = f"{type(error).__name__}: {text_of(error)}"
            if isinstance(error, ImportError):
                reason = f"{error}; {install(name)}"
            trackers.pop(name, None)
            warn(
                f"{name} does not log this run ({reason}); training continues, and metrics.jsonl "
                "has all figures."
            )

    def start(step: int) -> None:
        about = About(
            run.folder.resolve(),
            step,
            public_recipe(recipe.model_dump(mode="json", exclude_none=True)),
            public_environment(read_environment(run.folder)),
        )
        for name in dict.fromkeys(recipe.log):
            with attempt(name):
                module = importlib.import_module(f"ictcli.tracking.{name}")
                trackers[name] = module.open_tracker(about)
        before = run.read("eval/before.json", Evaluation)
        if before and not step:
            listen("eval/before.json", before)
        run.listener = listen

    def listen(name: str, record: Record) -> None:
        if isinstance(record, Evaluation):
            label = Path(name).stem
            step = ends[label] if label in ends else supervised + int(label.rpartition("-")[2])
            values = evaluation_figures(record)
        elif isinstance(record, StepMetrics | StepTimings | SftMetrics):
            step = record.step + (0 if isinstance(record, SftMetrics) else supervised)
            values = figures(PREFIXES[type(record)], record)
        else:
            return
        for library, tracker in list(trackers.items()):
            with attempt(library):
                tracker.log(step, values)

    try:
        yield start
    finally:
        run.listener = None
        for name, tracker in list(trackers.items()):
            with attempt(name):
                tracker.close()


def where_to_look(name: str, run: Path) -> str:
    """Return where a tracker shows a run's metrics, or the command that shows or uploads them."""
    if name == "tensorboard":
        return f"tensorboard --logdir {shell_word(run / 'tensorboard')}"
    from ictcli.tracking.wandb import mode

    if mode() == "online":
        return f"the project {os.environ.get('WANDB_PROJECT', PROJECT)} of your wandb account"
    return f"wandb sync {shell_word(run / 'wandb')}/offline-run-* uploads the run"


def figures(prefix: str, line: RunRecord) -> dict[str, float]:
    """Return the numbers in a line of metrics by name: train/reward, time/sample_s, sft/loss."""
    return {
        name if "/" in name else prefix + name: float(value)
        for name, value in line.to_json().items()
        if isinstance(value, int | float) and name != "step"
    }


def evaluation_figures(evaluation: Evaluation) -> dict[str, float]:
    """Return an evaluation's numbers by name: eval/pass@1, eval/pass@1_low, eval/truncated, ..."""
    values: dict[str, float] = {}
    for name, score in evaluation.scores.items():
        if score is not None:
            values[f"eval/{name}"] = score.value
            values |= {f"eval/{name}_low": score.low, f"eval/{name}_high": score.high}
    for name in ("truncated", "unparsed", "timed_out", "seconds"):
        values[f"eval/{name}"] = float(getattr(evaluation, name))
    return values

"""Tracking: a run's figures in TensorBoard, Weights & Biases or trackio, beside metrics.jsonl.

A tracker runs in its own process (`worker`), which the run starts (`run`) and which reads the
figures in the run's files: it may hang, print, crash or wait for a server, and no step waits for
it. The tracker gets numbers, the recipe and the environment, never a text of a model or a data set,
nor a path of this machine (`ictcli.runs.public`). RUN/tracking/NAME.json records the last place
that it logged: 0 = before training, n = step n, the number of steps + 1 = the end. Supervised
steps are counted first.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ictcli.evaluation.record import Evaluation, Record
from ictcli.runs.records import RunRecord
from ictcli.text import shell_word

PROJECT = "ictcli"


class About(Record):
    """The run, as a tracker gets it."""

    folder: Path
    id: str = ""
    """Eight characters, kept when the run is resumed."""
    done: int
    """The last finished step when the run is resumed; what was logged after it is void."""
    steps: int
    """All of the run, supervised ones before the others."""
    supervised: int = 0
    recipe: dict[str, Any]
    environment: dict[str, Any]


@dataclass
class LibraryRun:
    """A tracker: a run in one library, here around a run object of wandb or trackio, which have the
    same methods. The module of this package with the library's name has `open_tracker(about)`; an
    exception is reported once and ends that tracker."""

    run: Any
    rewinds: bool = False
    """Whether opening it deletes the steps after `About.done`, so that they are logged again."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log figures by name, of step 0 (before training), 1, 2, ..."""
        self.run.log(dict(values), step=step)

    def close(self) -> None:
        """Write what is not yet written, and close."""
        self.run.finish()


def where_to_look(name: str, run: Path) -> str:
    """Where a tracker shows a run's figures, or what to type for it."""
    if name == "tensorboard":
        return f"tensorboard --logdir {shell_word(run / 'tensorboard')}"
    if name == "trackio":
        return f"trackio show --project {shell_word(os.environ.get('TRACKIO_PROJECT', PROJECT))}"
    from ictcli.tracking.wandb import mode

    project = os.environ.get("WANDB_PROJECT", PROJECT)
    if mode() == "online" and not any((run / "wandb").glob("offline-run-*")):
        return f"the project {project} of your wandb account"
    return f"wandb sync {shell_word(run / 'wandb')}/offline-run-* uploads it"


def figures(prefix: str, line: RunRecord) -> dict[str, float]:
    """A step's line of a run's file as figures: train/reward, time/sample_s, sft/loss."""
    return {
        name if "/" in name else prefix + name: float(value)
        for name, value in line.to_json().items()
        if isinstance(value, int | float) and name != "step"
    }


def evaluation_figures(evaluation: Evaluation) -> dict[str, float]:
    """An evaluation's figures: eval/pass@1, eval/pass@1_low and _high, and shares of samples."""
    values: dict[str, float] = {}
    for name, score in evaluation.scores.items():
        if score is not None:
            values[f"eval/{name}"] = score.value
            values |= {f"eval/{name}_low": score.low, f"eval/{name}_high": score.high}
    for name in ("truncated", "unparsed", "timed_out", "seconds"):
        values[f"eval/{name}"] = float(getattr(evaluation, name))
    return values
